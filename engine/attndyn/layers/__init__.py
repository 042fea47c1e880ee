"""Forward and backward pairs, one layer a file, and the parts architectures are made of.

Every pair is two plain functions: `forward` returns the output and what `backward` needs, `backward` takes
the gradient of the output and returns those of the inputs. All arrays have the replica axis first.
"""
