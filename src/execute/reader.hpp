// Reads source elements into buffers: long runs straight into place, short ones through windows
// read once.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "io/input_file.hpp"
#include "layout/box.hpp"
#include "layout/copy.hpp"
#include "plan/binding.hpp"

#include "count_unlike.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// A bounded set of open source files; the least recently used one is closed first. The page cache
/// keeps what it held before: of files that were not in it, nothing is left there at the end,
/// unless the source says otherwise.
class OpenFiles {
  public:
    explicit OpenFiles(const SourceFiles& source) : source_(source) {}
    ~OpenFiles();
    OpenFiles(const OpenFiles&) = delete;
    OpenFiles& operator=(const OpenFiles&) = delete;

    /// Error(io) when the file is no longer what the source says.
    const io::InputFile& get(std::uint32_t file);

    /// Has the kernel fetch bytes that are read later and are not in memory; opens their file only
    /// where none is closed for it.
    void announce(std::uint32_t file, Bytes offset, Bytes size);

    /// Says that these bytes of a file that `get` gave last are not read again by this rank.
    void done_with(std::uint32_t file, Bytes offset, Bytes size);

    /// Closes all. Error(io) when one of them was changed since it was first opened.
    void finish();
    /// Looks at those that were read since the last call, and keeps them open. Error(io) as
    /// `finish`.
    void require_unchanged();

  private:
    struct OpenInput {
        std::uint32_t file = 0;
        io::InputFile opened;
        Bytes done_begin = 0;  ///< not read again, but perhaps in one page with what follows
        Bytes done_size = 0;
        bool is_read = true;  ///< since require_unchanged
    };
    [[nodiscard]] io::FileStamp expected(std::uint32_t file) const;
    void require_expected(const io::InputFile& opened, std::uint32_t file) const;
    [[nodiscard]] bool is_cold(std::uint32_t file) const;
    void check_and_close_oldest();
    void close_oldest();

    const SourceFiles& source_;
    std::list<OpenInput> recent_;
    std::unordered_map<std::uint32_t, std::list<OpenInput>::iterator> by_file_;
    std::unordered_map<std::uint32_t, io::FileStamp> first_stamps_;  ///< where the source has none
    /// By file: the share of it that was in the page cache when it was first met.
    std::unordered_map<std::uint32_t, double> cached_;
};

/// Elements of one file to be brought to `dst`, or compared with what is there.
struct Move {
    std::uint32_t file = 0;
    Bytes base = 0;  ///< file offset of source address 0
    std::uint32_t element_bytes = 0;
    layout::Copy copy;  ///< destination addresses count elements of dst
    ByteSpan dst;
    Index* n_different = nullptr;  ///< set: compare and add the count here instead of copying
    ComparedTypes rounding = {};   ///< of what is compared

    /// The file offset of a source address.
    [[nodiscard]] Bytes at(Index address) const {
        return base + static_cast<Bytes>(address) * element_bytes;
    }
    /// Copies, or compares, elements whose source addresses are counted in `src`.
    void carry_out(const layout::Copy& elements, ByteView src) const;
};

class Reader {
  public:
    Reader(const SourceFiles& source, Bytes scratch_bytes);

    /// Carries out all moves, in the order of the files.
    void read(std::vector<Move> moves);

    /// Reads ranges of a target's elements as they are stored, one behind the other, into `out`.
    /// Returns how many of them the operands hold; nothing is read unless they hold all, each once.
    Index gather(std::span<const plan::Operand> operands, std::span<const layout::Range> ranges,
                 std::uint32_t element_bytes, ByteSpan out);

    /// Whether bytes may be fetched uncounted: not under a bandwidth limit.
    [[nodiscard]] bool may_announce() const { return throttle_ == nullptr; }
    /// What a later read needs. Error(io) as `read`.
    void announce(std::uint32_t file, Bytes offset, Bytes size) {
        files_.announce(file, offset, size);
    }

    /// To be called behind the last read. Error(io) when a file was changed meanwhile.
    void finish() { files_.finish(); }
    /// To be called behind reads that others follow. Error(io) as `finish`.
    void require_unchanged() { files_.require_unchanged(); }

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
    void fetch(std::uint32_t file, Bytes offset, ByteSpan out);

    OpenFiles files_;
    std::shared_ptr<io::Throttle> throttle_;
    std::shared_ptr<RecordSums> sums_;
    Bytes scratch_bytes_;
    ByteBuffer scratch_;  ///< made when first needed
    Bytes bytes_read_ = 0;
};

}  // namespace shardweld::execute
