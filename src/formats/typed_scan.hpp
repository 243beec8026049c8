// Formats whose scans hold more of a file than any catalogue does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/codec.hpp"

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

/// What one file tells: what any format has of a file, and what only this format makes use of.
template <typename Own>
struct ScanOf {
    catalogue::Catalogue told;
    Own own = {};
};

/// A format whose scans carry an `Own`, a struct with fields, from scan_file to join.
template <typename Own>
class FormatOf : public Format {
  public:
    [[nodiscard]] Scan scan(const Location& location, const std::string& file) const final {
        ScanOf<Own> typed = scan_file(location, file);
        Scan scan(std::move(typed.told));
        scan.own = encoded(typed.own);
        return scan;
    }

    [[nodiscard]] catalogue::Catalogue combine(const Location& location,
                                               std::vector<Scan> scans) const final {
        std::vector<ScanOf<Own>> typed;
        typed.reserve(scans.size());
        for (Scan& scan : scans) {
            auto own = decoded<Own>(std::exchange(scan.own, {}));
            typed.push_back({std::move(scan), std::move(own)});
        }
        return join(location, std::move(typed));
    }

  protected:
    /// As Format::scan.
    [[nodiscard]] virtual ScanOf<Own> scan_file(const Location& location,
                                                const std::string& file) const = 0;
    /// As Format::combine.
    [[nodiscard]] virtual catalogue::Catalogue join(const Location& location,
                                                    std::vector<ScanOf<Own>> scans) const = 0;
};

}  // namespace shardweld::formats
