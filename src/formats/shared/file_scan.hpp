// Scans of single torch files, and what all formats do with the scans of several files.
// Knows catalogues; nothing of what the files' dictionaries mean.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

#include "ignored_rows.hpp"

namespace shardweld::formats {

/// A catalogue of one torch file of the location: the file, its globals left inert, what `add` puts
/// there, and a row for the bytes of storages that none of this tells of. Errors of `add` name the
/// file; those of TorchFile::read do so by themselves.
catalogue::Catalogue scan_torch_file(
    const Location& location, const std::string& file,
    const std::function<void(const TorchFile&, catalogue::Catalogue&)>& add);
/// The same of a file that is open.
catalogue::Catalogue scan_torch_file(
    const io::InputFile& input, const Location& location, const std::string& file,
    const std::function<void(const TorchFile&, catalogue::Catalogue&)>& add);

/// Moves into `out` what every scan of one file has: the file, its globals left inert; into
/// `ignored` its rows. The file's number in `out`.
std::uint32_t join_scan(catalogue::Catalogue& scan, IgnoredRows& ignored,
                        catalogue::Catalogue& out);

/// Gives a joiner all scans, each freed as soon as it is taken.
template <typename Joiner>
void add_each(std::vector<catalogue::Catalogue> scans, Joiner& joiner) {
    for (catalogue::Catalogue& scan : scans) {
        joiner.add(std::exchange(scan, {}));
    }
}

}  // namespace shardweld::formats
