// Reads source elements into buffers: long runs straight into place, short ones through windows
// read once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "layout/copy.hpp"

#include "open_files.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// Elements of one file to be brought to `dst`, or compared with what is there.
struct Move {
    std::uint32_t file = 0;
    Bytes base = 0;  ///< file offset of source address 0
    std::uint32_t element_bytes = 0;
    layout::Copy copy;  ///< destination addresses count elements of dst
    std::span<std::byte> dst;
    Index* n_different = nullptr;  ///< set: compare and add the count here instead of copying
};

class Reader {
  public:
    Reader(const SourceFiles& source, Bytes scratch_bytes);

    /// Carries out all moves, in the order of the files.
    void read(std::vector<Move> moves);

    /// Whether bytes may be fetched uncounted: not under a bandwidth limit.
    [[nodiscard]] bool may_announce() const { return throttle_ == nullptr; }
    /// What a later read needs. Error(io) as `read`.
    void announce(std::uint32_t file, Bytes offset, Bytes size) {
        files_.announce(file, offset, size);
    }

    /// To be called behind the last read. Error(io) when a file was changed meanwhile.
    void finish() { files_.finish(); }

    [[nodiscard]] Bytes bytes_read() const { return bytes_read_; }
    [[nodiscard]] Bytes buffer_bytes() const { return scratch_.size(); }

  private:
    /// A move and the bytes of the file it spans.
    struct Spanned {
        Move move;
        Bytes begin = 0;
        Bytes end = 0;
    };

    bool read_runs(const Move& move);
    void split(const Move& move, std::vector<Spanned>& out);
    void add_part(Spanned part, std::vector<Spanned>& parts);
    void read_parts(std::vector<Spanned>& parts);
    void read_window(std::span<const Spanned> window);
    void fetch(std::uint32_t file, Bytes offset, std::span<std::byte> out);

    OpenFiles files_;
    std::shared_ptr<io::Throttle> throttle_;
    std::shared_ptr<RecordSums> sums_;
    Bytes scratch_bytes_;
    std::vector<std::byte> scratch_;  ///< made when first needed
    Bytes bytes_read_ = 0;
};

}  // namespace shardweld::execute
