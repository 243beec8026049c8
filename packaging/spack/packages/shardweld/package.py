# spack repo add packaging/spack && spack install shardweld
import os

from spack.package import *

# Spack 1.0 keeps build systems beside its packages, and takes compilers for languages' packages.
try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage

    LANGUAGES = ("c", "cxx")
except ImportError:
    LANGUAGES = ()


class Shardweld(CMakePackage):
    """Merges distributed training checkpoints into HuggingFace models, with MPI."""

    # The sources that this recipe lies in.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))

    license("Apache-2.0")

    version("main", branch="main")

    variant("hdf5", default=True, description="Read and write HDF5 files")

    for language in LANGUAGES:
        depends_on(language, type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi@3:")
    depends_on("nlohmann-json@3.10:", type="build")
    depends_on("xxhash@0.8:")
    depends_on("isa-l")
    depends_on("openssl@3:")
    depends_on("re2+shared")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("hdf5+mpi@1.10:", when="+hdf5")

    conflicts("%gcc@:11", msg="C++20")

    def cmake_args(self):
        return [
            self.define_from_variant("SHARDWELD_HDF5", "hdf5"),
            self.define("SHARDWELD_TESTS", False),
        ]
