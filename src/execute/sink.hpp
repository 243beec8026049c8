// Writes finished parts of the output line to their files.
// Knows the placement; nothing of where the bytes come from.
#pragma once

#include <filesystem>
#include <map>
#include <span>

#include "shardweld/io/file.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::execute {

/// One rank's open output files; each is opened when its first byte is written.
class Sink {
  public:
    Sink(const plan::Plan& plan, std::filesystem::path directory)
        : plan_(plan), directory_(std::move(directory)) {}

    /// Writes the bytes of a part of the line (contiguous, in line order). Error(io), Error(space).
    void write(plan::LineRange range, std::span<const std::byte> bytes);

    /// fsyncs (if asked) and closes all files, checked.
    void finish(bool sync);

    [[nodiscard]] Bytes bytes_written() const { return bytes_written_; }

  private:
    io::OutputFile& file(std::uint32_t at);
    /// Whether `slice`, the next of the line, begins where the tensor of `before` ends in its file.
    [[nodiscard]] bool follows(const plan::Slice& before, const plan::Slice& slice) const;

    const plan::Plan& plan_;
    std::filesystem::path directory_;
    std::map<std::uint32_t, io::OutputFile> open_;
    Bytes bytes_written_ = 0;
};

}  // namespace shardweld::execute
