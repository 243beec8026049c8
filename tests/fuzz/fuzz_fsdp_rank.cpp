// Any bytes as a rank file of FSDP; every piece must lie inside its tensor and its storage.
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "shardweld/formats/format.hpp"
#include "shardweld/layout/patch.hpp"

#include "support/memory_file.hpp"
#include "walk.hpp"

namespace {

using namespace shardweld;

constexpr const char* kName = "model_world_size_4_rank_0.pt";

/// A directory in which the rank file's name leads to the bytes.
class Directory {
  public:
    Directory()
        : path_(std::filesystem::temp_directory_path() /
                ("shardweld_fuzz_" + std::to_string(::getpid()))) {
        std::filesystem::create_directories(path_);
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& with(const std::filesystem::path& bytes) const {
        std::filesystem::remove(path_ / kName);
        std::filesystem::create_symlink(bytes, path_ / kName);
        return path_;
    }

  private:
    std::filesystem::path path_;
};

void check(const catalogue::Piece& piece, std::span<const Index> shape, DType dtype, Bytes size) {
    const auto& axes = piece.patch.axes;
    bool is_inside = axes.size() == shape.size() && piece.base <= size &&
                     piece.storage_bytes <= size - piece.base;
    for (std::size_t k = 0; is_inside && k < axes.size(); ++k) {
        is_inside =
            axes[k].lo >= 0 && axes[k].lo <= shape[k] && axes[k].extent <= shape[k] - axes[k].lo;
    }
    if (is_inside && piece.patch.volume() > 0) {
        const auto span = layout::address_span(piece.patch);
        is_inside = span.lo >= 0 && static_cast<Bytes>(span.lo + span.extent) * size_of(dtype) <=
                                        piece.storage_bytes;
    }
    if (!is_inside) {
        __builtin_trap();
    }
}

void scan(formats::Location location, const formats::Mesh& mesh) {
    location.mesh = mesh;
    const formats::Format& format = formats::format_of(location);
    auto catalogue = format.scan(location, kName);
    const Bytes size = catalogue.files.front().size;
    for (const auto& tensor : catalogue.tensors) {
        for (const auto& piece : tensor.pieces) {
            check(piece, tensor.shape, tensor.dtype, size);
        }
    }
    for (const auto& shard : catalogue.shards) {
        check(shard.piece, shard.shape, shard.dtype, size);
    }
    static_cast<void>(format.combine(location, {std::move(catalogue)}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const test::MemoryFile memory({reinterpret_cast<const char*>(data), size});
    static const Directory directory;
    formats::Location location;
    location.format = "verl fsdp";
    location.directory = directory.with(memory.path());
    location.shard_files = {kName};
    fuzz::expect_errors_only([&] { scan(location, {}); });
    fuzz::expect_errors_only([&] { scan(location, {{"fsdp", "tp"}, {2, 2}}); });
    return 0;
}
