// What is known of a mount's bytes: what was read and held against checksums, and what failed.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/merge/unwritten.hpp"
#include "core/path.hpp"
#include "execute/record_check.hpp"
#include "shardweld/error.hpp"

#include "unwritten_files.hpp"

namespace shardweld::mount {

/// The books of a mount. Any thread.
class Proof {
  public:
    Proof(app::Unwritten& model, UnwrittenFiles& files, fs::path point)
        : model_(model), files_(files), point_(std::move(point)) {}

    /// Notes that a read failed.
    void note(const Error& failure);

    /// Reads every byte of every file, and of records whatever else they hold; then, and without
    /// it, what is known as JSON (docs/using/mounting.md). An Error is a part of it.
    std::string prove(const GivesUp& gives_up);
    std::string told();

  private:
    void read_all(const GivesUp& gives_up);
    [[nodiscard]] execute::RecordCounts counts() const;

    app::Unwritten& model_;
    UnwrittenFiles& files_;
    fs::path point_;
    std::mutex proving_;  ///< one at a time
    std::mutex mutex_;    ///< of what follows
    bool is_proved_ = false;
    std::optional<execute::RecordCounts> proved_;  ///< by `prove`
    std::vector<Error> failures_;  ///< since the last proof began: the first ones, each once
};

}  // namespace shardweld::mount
