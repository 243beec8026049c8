// Scans of single files, and what all formats do with the scans of several: a tensor as a piece,
// what is left aside, copies numbered, gaps and overlaps found.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/file.hpp"
#include "catalogue/tensor.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"
#include "layout/cover.hpp"

namespace shardweld::formats {

/// One row for each pair of pattern and reason.
class IgnoredRows {
  public:
    void add(const std::pair<std::string, std::string>& row, Index count, Bytes bytes);
    /// Adds rows counted elsewhere.
    void add(const std::vector<catalogue::Ignored>& rows);
    [[nodiscard]] std::vector<catalogue::Ignored> take() const;

  private:
    std::map<std::pair<std::string, std::string>, catalogue::Ignored> rows_;
};

/// A catalogue of one torch file of the location: the file, its globals left inert, what `add` puts
/// there, and a row for the bytes of storages that none of this tells of. Errors of `add` name the
/// file; those of TorchFile::read do so by themselves.
catalogue::Catalogue scan_torch_file(
    const Location& location, const std::string& file,
    const std::function<void(const TorchFile&, catalogue::Catalogue&)>& add);
/// As above, for a file that is open.
catalogue::Catalogue scan_torch_file(
    const io::InputFile& input, const Location& location, const std::string& file,
    const std::function<void(const TorchFile&, catalogue::Catalogue&)>& add);

/// Moves into `out` what every scan of one file has: the file, its statements, its globals left
/// inert; into `ignored` its rows. The file's number in `out`, which the scan's pieces get, too.
std::uint32_t join_scan(catalogue::Catalogue& scan, IgnoredRows& ignored,
                        catalogue::Catalogue& out);

/// Gives a joiner all scans, each freed as soon as it is taken.
template <typename AScan, typename Joiner>
void add_each(std::vector<AScan> scans, Joiner& joiner) {
    for (AScan& scan : scans) {
        joiner.add(std::exchange(scan, {}));
    }
}

/// `stored` as the part of a larger tensor that begins at `lo` (elements, one for each axis; none:
/// all 0). The piece's file is left at 0. Error(unsupported) when it has too many axes.
catalogue::Piece piece_of(const StoredTensor& stored, std::span<const Index> lo = {});

/// Sorts pieces by their boxes, then by file, and numbers those of one box in different files: 0 is
/// the lowest file's. The same box twice in one file is no copy but an overlap.
void number_replicas(std::vector<catalogue::Piece>& pieces);

using layout::Cover;

struct CoverFault {
    Cover::Kind kind = Cover::Kind::exact;
    std::string text;        ///< where: "between [0, 0] and [4, 8]", "[4] at [0] and [2] at [3]"
    std::string first_box;   ///< of an overlap: "[4] at [0]"
    std::string second_box;  ///< of an overlap
    std::uint32_t first_file = 0;   ///< of an overlap
    std::uint32_t second_file = 0;  ///< of an overlap
};

/// Whether the pieces numbered 0 hold every element of the tensor once.
CoverFault find_cover_fault(const catalogue::Tensor& tensor);

}  // namespace shardweld::formats
