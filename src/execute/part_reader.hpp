// Reads parts of an output that nobody writes: the bytes that a run would put there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/path.hpp"
#include "core/process/fork_safe_mutex.hpp"
#include "layout/box.hpp"
#include "plan/plan.hpp"

#include "reader.hpp"
#include "round.hpp"
#include "run_options.hpp"
#include "source.hpp"
#include "writer.hpp"

namespace shardweld::execute {

/// Whether any element of a target can be read without others: all are stored as they are written,
/// but for their type.
bool is_read_alone(const plan::Target& target);

/// One reader, for one thread at a time; several share a plan and its files.
class PartReader {
  public:
    /// `plan` is for one rank; `factors` is the file that folds and codes read theirs from.
    PartReader(const plan::Plan& plan, const SourceFiles& source, fs::path factors);
    ~PartReader() = default;
    PartReader(const PartReader&) = delete;
    PartReader& operator=(const PartReader&) = delete;

    /// Puts a box of a target into `out`, row-major and as it would be written. For a target that
    /// is stored as it is written, or cast, only the box's elements are read (and small gaps
    /// between them); for others the rows that it lies in. `out` has the box's size. Error(io),
    /// Error(corrupt).
    void read(std::uint32_t target, const layout::Box& box, ByteSpan out);
    /// Puts elements of a written tensor there likewise, codes, scales and constants as well, one
    /// behind the other.
    void read_elements(std::uint32_t tensor, layout::Range elements, ByteSpan out);

  private:
    void read_runs(const plan::Target& target, std::span<const layout::Range> runs, ByteSpan out);
    void gather(const plan::Target& target, std::span<const layout::Range> runs, ByteSpan out);
    void cast(const plan::Target& target, std::span<const layout::Range> runs, ByteSpan out);
    void read_rows(std::uint32_t target, const layout::Box& box, ByteSpan out);
    void make(std::uint32_t tensor, layout::Range elements, ByteSpan out);
    void take_slice(const plan::Slice& slice, ByteView bytes);

    const plan::Plan& plan_;
    RunOptions options_;
    Reader reader_;
    RoundBuffers buffers_;
    Writer writer_;
    std::vector<std::uint32_t> tensors_;  ///< by target: the first that it writes
    std::vector<std::size_t> places_;  ///< by tensor: its place in output order, or the first one's
    Buffer stored_, rows_;
    std::uint32_t wanted_tensor_ = 0;  ///< what `make` is asked for, and where it goes
    layout::Range wanted_;
    ByteSpan out_;
};

/// Readers for any number of threads. Each read has the cores to itself that no other uses: large
/// boxes are read in parts, by threads that end before it returns.
class PartReaders {
  public:
    /// `plan` is for one rank, `factors` the file that folds and codes read theirs from; `plan` and
    /// `source` outlive it. `n_cores`: that the process may use.
    PartReaders(const plan::Plan& plan, const SourceFiles& source, fs::path factors,
                unsigned n_cores);

    /// PartReader::read by several threads. Error(io) where a file was changed since it was first
    /// opened, too.
    void read(std::uint32_t target, const layout::Box& box, ByteSpan out);
    /// PartReader::read_elements, by this thread alone. Error(io) likewise.
    void read_elements(std::uint32_t tensor, layout::Range elements, ByteSpan out);

  private:
    class Helpers;
    void read_part(std::uint32_t target, const layout::Box& box, ByteSpan out);
    std::unique_ptr<PartReader> free_reader();
    void give_back(std::unique_ptr<PartReader> reader);

    const plan::Plan& plan_;
    const SourceFiles& source_;
    fs::path factors_;
    std::atomic<Bytes> n_idle_;  ///< cores that may help
    ForkSafeMutex mutex_;
    std::vector<std::unique_ptr<PartReader>> kept_;  ///< with their buffers and open files
};

}  // namespace shardweld::execute
