// Formats whose scans hold more of a file than any catalogue does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/codec.hpp"

#include "catalogue_words.hpp"
#include "format.hpp"

namespace shardweld::formats {

/// A value to bytes and back.
template <typename T>
std::vector<std::byte> encoded(const T& value) {
    ByteWriter writer;
    writer.put(value);
    return writer.take();
}
template <typename T>
T decoded(const std::vector<std::byte>& bytes) {
    return ByteReader(bytes).get<T>();
}

/// What one file tells: what any format has of a file, and what only this format makes use of, a
/// value that core/codec.hpp encodes.
template <typename Own>
struct ScanOf {
    Catalogue told;
    Own own = {};
};

/// The functions behind Format::scan and Format::combine of a format whose scans carry an `Own`
/// from one to the other.
template <typename Own>
using ScanFile = ScanOf<Own> (*)(const Location&, const std::string&);
template <typename Own>
using JoinScans = Catalogue (*)(const Location&, std::vector<ScanOf<Own>>);

template <typename Own, ScanFile<Own> kScanFile>
Scan scan_typed(const Location& location, const std::string& file) {
    ScanOf<Own> typed = kScanFile(location, file);
    Scan scan(std::move(typed.told));
    scan.own = encoded(typed.own);
    return scan;
}

template <typename Own, JoinScans<Own> kJoin>
Catalogue combine_typed(const Location& location, std::vector<Scan> scans) {
    std::vector<ScanOf<Own>> typed;
    typed.reserve(scans.size());
    for (Scan& scan : scans) {
        auto own = decoded<Own>(std::exchange(scan.own, {}));
        typed.push_back({std::move(scan), std::move(own)});
    }
    return kJoin(location, std::move(typed));
}

}  // namespace shardweld::formats
