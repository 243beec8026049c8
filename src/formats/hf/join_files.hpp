// Weight files of one model put together and held against their index.
// Knows scans; names and the index are model_files', what files hold is weight_file's.
#pragma once

#include <string>
#include <vector>

#include "formats/format.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats::hf {

/// The names and places of a weight file's tensors, or what an index (*.json) says of them.
catalogue::Catalogue scan_file(const Location& location, const std::string& file);

/// What becomes of a tensor in another file than the index says.
enum class Strays { left_aside, compared };

/// All tensors of all files, in the scans of `location.shard_files`. A name in several files is one
/// tensor with replicas. With one or more indices, tensors that none names are left aside with a
/// warning; those that one places elsewhere as `strays` says. Error(mismatch) when dtypes or shapes
/// of one name differ, Error(not_found) when files of a numbered set, tensors of the index or all
/// tensors are missing.
catalogue::Catalogue join_files(const Location& location, std::vector<catalogue::Catalogue> scans,
                                Strays strays);

/// A format whose shard files are the weight files of one model, with or without an index.
class WeightFilesFormat : public Format {
  public:
    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override;
    [[nodiscard]] catalogue::Catalogue scan(const Location& location,
                                            const std::string& file) const override;
    [[nodiscard]] catalogue::Catalogue combine(
        const Location& location, std::vector<catalogue::Catalogue> scans) const override;
};

}  // namespace shardweld::formats::hf
