#include "file_scan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/pickle_bytes.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

using catalogue::Catalogue;

namespace {

/// Bytes of a file's storages in which tensors lie; of elements that several share, once.
class BytesRead {
  public:
    void add(const catalogue::Piece& piece, DType dtype) {
        const Bytes bytes = to_bytes(piece.patch.volume(), "elements") * size_of(dtype);
        Bytes& read = storages_[piece.base];
        read = std::min(checked_add_bytes(read, bytes, "bytes read"), piece.storage_bytes);
    }
    [[nodiscard]] Bytes sum() const {
        Bytes sum = 0;
        for (const auto& [base, read] : storages_) {
            sum = checked_add_bytes(sum, read, "bytes read");
        }
        return sum;
    }

  private:
    std::map<Bytes, Bytes> storages_;  // by their offsets
};

// So that no byte of the file goes unmentioned.
void add_unread(const TorchFile& file, Catalogue& out) {
    BytesRead read;
    for (const catalogue::Tensor& tensor : out.tensors) {
        for (const catalogue::Piece& piece : tensor.pieces) {
            read.add(piece, tensor.dtype);
        }
    }
    for (const catalogue::Shard& shard : out.shards) {
        read.add(shard.piece, shard.dtype);
    }
    Bytes told = read.sum();
    for (const catalogue::Ignored& row : out.ignored) {
        told = checked_add_bytes(told, row.bytes, "bytes left aside");
    }
    if (const Bytes all = file.storage_bytes(); all > told) {
        out.ignored.push_back(
            {"(storages)", "no tensor of the model lies in these bytes", 1, all - told});
    }
}

}  // namespace

Catalogue scan_torch_file(const Location& location, const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add) {
    return scan_torch_file(io::InputFile::open(location.directory / file), location, file, add);
}

Catalogue scan_torch_file(const io::InputFile& input, const Location& location,
                          const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add) {
    const TorchFile torch_file = TorchFile::read(input, 0, std::nullopt, location.check_crc);
    Catalogue out;
    out.files.push_back({file, input.size()});
    for (const std::string& global : torch_file.pickle().inert_globals()) {
        out.inert_globals[global] = 1;
    }
    try {
        add(torch_file, out);
        add_unread(torch_file, out);
        torch_file.require_unchanged();
    } catch (Error& error) {
        error.add_context("file " + printable(file));
        throw;
    } catch (const std::bad_alloc&) {
        throw_no_memory(location.directory / file);
    }
    return out;
}

std::uint32_t join_scan(Catalogue& scan, IgnoredRows& ignored, Catalogue& out) {
    const auto file = static_cast<std::uint32_t>(out.files.size());
    out.files.push_back(std::move(scan.files.front()));
    ignored.add(scan.ignored);
    std::move(scan.statements.begin(), scan.statements.end(), std::back_inserter(out.statements));
    for (const auto& [global, count] : scan.inert_globals) {
        out.inert_globals[global] += count;
    }
    return file;
}

}  // namespace shardweld::formats
