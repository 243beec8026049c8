// The one error type of the program and its exit codes.
// Knows nothing of files, ranks or models: callers put those into the message and its context.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardweld {

/// What went wrong; the value is the process's exit code (docs/using/errors.md).
enum class ErrorCode {
    ok = 0,
    usage = 2,
    not_found = 3,
    corrupt = 4,
    unsupported = 5,
    mismatch = 6,
    io = 7,
    space = 8,
    memory = 9,
    launch = 10,
    stopped = 11,
    target = 12,
    differs = 13,
    strict = 14,
    no_client = 20,  ///< uploads, from here on
    no_token = 21,
    no_rights = 22,
    no_repository = 23,
    no_network = 24,
    interrupted = 25,
    internal = 70,
};

/// The code's name as reports print it, e.g. "not_found".
std::string_view name_of(ErrorCode code);

/// An error that ends the run. The message says what was found, what was expected and what to do;
/// each layer on the way up may add a context line (innermost first), none rewrites the message.
class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& message);

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    [[nodiscard]] const std::vector<std::string>& context() const noexcept { return context_; }

    /// Adds where it happened, e.g. "file mp_rank_00/model_optim_rng.pt"; returns *this to rethrow.
    Error& add_context(std::string where);

    /// Message and context on one line: "message [in tensor x; in file y]".
    [[nodiscard]] std::string full_text() const;

  private:
    ErrorCode code_;
    std::vector<std::string> context_;
};

}  // namespace shardweld
