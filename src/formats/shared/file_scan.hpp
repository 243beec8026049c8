// Scans of single files: a tensor as a piece, and what is left aside.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

namespace shardweld::formats {

class ScalarReader;

/// Pattern and reason of a row of what is left aside.
using RowName = std::pair<std::string, std::string>;

/// One row for each pair of pattern and reason.
class IgnoredRows {
  public:
    void add(const RowName& row, Index count, Bytes bytes);
    /// Adds rows counted elsewhere.
    void add(const std::vector<Ignored>& rows);
    [[nodiscard]] std::vector<Ignored> rows() const;

  private:
    std::map<RowName, Ignored> rows_;
};

/// A catalogue of one file of the location: the file, and what `add` puts there, whose errors name
/// it.
Catalogue scan_input_file(const Location& location, const std::string& file,
                          const std::function<void(const io::InputFile&, Catalogue&)>& add);
/// A catalogue of one torch file of the location: the file, its globals left inert, what `add` puts
/// there, and a row for the bytes of storages that none of this tells of. Errors of `add` name the
/// file; those of TorchFile::read do so by themselves.
Catalogue scan_torch_file(const Location& location, const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add);
/// A catalogue of such a file, which is open.
Catalogue scan_torch_file(const io::InputFile& input, const Location& location,
                          const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add);

/// Gives `use` what a torch file of the location holds, where it is there. Errors name the file.
void use_torch_file(
    const Location& location, const std::string& file,
    const std::function<void(const PickleValue& root, const ScalarReader& scalars)>& use);

/// `stored` as the part of a larger tensor that begins at `lo` (elements, one for each axis; none:
/// all 0). The piece's file is left at 0. Error(unsupported) when it has too many axes.
Piece piece_of(const StoredTensor& stored, std::span<const Index> lo = {});

}  // namespace shardweld::formats
