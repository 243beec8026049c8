// Parts of the program that are loaded only when they are asked for, and the files they come in.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/path.hpp"

namespace shardweld {

/// Where a part of the program may lie: beside the running program, or in bin where it is one of
/// libexec, then in ../lib/shardweld. For
/// the Python module beside it, then in lib/shardweld of the prefix that it is installed in.
/// Error(unsupported) when the system does not tell where the program lies.
std::vector<fs::path> installed_places(const std::string& file_name);

/// The first of these places that has the file.
std::optional<fs::path> find_installed(const std::string& file_name);

/// A loaded shared object; it stays in the process.
class SharedObject {
  public:
    /// What messages call it ("the HDF5 module") and what to do when it is not there.
    struct About {
        std::string what;
        std::string remedy;
    };

    /// Error(unsupported) when the file or one of its libraries cannot be loaded.
    static SharedObject load(const fs::path& path, About about);
    /// As above from where an installation puts it. Error(unsupported), naming the places, when
    /// there is none.
    static SharedObject load_installed(const std::string& file_name, About about);

    /// A function of C linkage and type `F`. Error(unsupported) when there is none of this name.
    template <typename F>
    [[nodiscard]] F* function(const char* name) const {
        return reinterpret_cast<F*>(address_of(name));
    }

    /// Error(unsupported) unless the two numbers of the interface are equal.
    void require_abi(int found, int needed) const;

  private:
    SharedObject(void* library, fs::path path, About about)
        : library_(library), path_(std::move(path)), about_(std::move(about)) {}
    [[nodiscard]] void* address_of(const char* name) const;

    void* library_;
    fs::path path_;
    About about_;
};

}  // namespace shardweld
