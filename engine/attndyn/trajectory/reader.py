"""Reading a trajectory."""

from __future__ import annotations

from pathlib import Path

import xarray as xr
from scipy.sparse import csr_array

from attndyn.errors import RunError
from attndyn.trajectory.schema import PAIRS


def open_trajectory(path: Path) -> xr.DataTree:
    """The labelled tree of a `trajectory.nc`, its arrays read when they are used.

    Raises:
        RunError: there is no such file, or it is no trajectory.
    """
    if not path.is_file():
        raise RunError(f"{path}: no such trajectory")
    try:
        tree = xr.open_datatree(path, engine="netcdf4")
    except Exception as error:  # netCDF4 and xarray raise many types for a damaged file
        said = " ".join(str(error).split())
        raise RunError(f"{path}: not a trajectory, damaged, or just being written ({said})") from None
    if "attndyn_version" not in tree.attrs:
        tree.close()
        raise RunError(f"{path}: not written by attndyn")
    return tree


def pairs(trajectory: xr.DataTree) -> csr_array:
    """How often a token is followed by another one in the text it trained on, `(token, next_token)`.

    Raises:
        RunError: the trajectory is of data that were not read from a text.
    """
    if PAIRS not in trajectory.children:
        raise RunError("the trajectory is not of a text: it has no counts of pairs")
    group = trajectory[PAIRS]
    index = (group["first"].values, group["second"].values)
    shape = (trajectory.sizes["token"], trajectory.sizes["next_token"])
    return csr_array((group["occurrences"].values, index), shape=shape)
