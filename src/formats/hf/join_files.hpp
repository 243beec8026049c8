// Weight files of one model put together and held against their index.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/index.hpp"
#include "formats/format.hpp"
#include "formats/typed_scan.hpp"

namespace shardweld::formats::hf {

/// What an index (*.json) says; empty for a file of weights.
struct IndexContent {
    std::vector<std::string> files;
    std::map<std::string, Index> file_of;  ///< by tensor: position in `files`

    static constexpr auto fields = [](auto& self) { return std::tie(self.files, self.file_of); };
};

/// The names and places of a weight file's tensors, or what an index says of them.
ScanOf<IndexContent> scan_weights_or_index(const Location& location, const std::string& file);

/// What becomes of a tensor in another file than the index says.
enum class Strays { left_aside, compared };

/// A format whose shard files are the weight files of one model, with or without indices.
class WeightFilesFormat : public FormatOf<IndexContent> {
  public:
    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override;

  protected:
    [[nodiscard]] virtual Strays strays() const { return Strays::left_aside; }

  private:
    [[nodiscard]] ScanOf<IndexContent> scan_file(const Location& location,
                                                 const std::string& file) const final;
    /// All tensors of all files. A name in several files is one tensor with replicas. With one or
    /// more indices, tensors that none names are left aside with a warning; those that one places
    /// elsewhere as strays() says. Error(mismatch) when dtypes or shapes of one name differ,
    /// Error(not_found) when files of a numbered set, tensors of the index or all tensors are
    /// missing.
    [[nodiscard]] catalogue::Catalogue join(const Location& location,
                                            std::vector<ScanOf<IndexContent>> scans) const final;
};

}  // namespace shardweld::formats::hf
