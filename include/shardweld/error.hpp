// The one error type of the program and its exit codes.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
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
    locked = 15,
    incomplete = 16,
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

/// An error that ends the run, in the parts that people are shown: what is wrong (one sentence,
/// what()), where (tensor, file, rank, found and expected), and what to do about it. Those who
/// throw know what and mostly what to do; each layer on the way up may say where, none rewrites
/// what another has said.
class Error : public std::exception {
  public:
    Error() = default;
    /// `hint`: what to do, in the imperative; "" for what is usual with this code
    /// (app/cli/error_text.hpp).
    Error(ErrorCode code, std::string what, std::string hint = "")
        : code_(code), what_(std::move(what)), hint_(std::move(hint)) {}

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.code_, self.what_, self.where_, self.hint_, self.detail_);
    };

    [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    /// Innermost first.
    [[nodiscard]] const std::vector<std::string>& context() const noexcept { return where_; }
    [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
    /// For those who look closer (-v): which line of which recipe speaks. May be "".
    [[nodiscard]] const std::string& detail() const noexcept { return detail_; }

    /// Adds where it happened, e.g. "file mp_rank_00/model_optim_rng.pt"; returns *this to rethrow.
    Error& add_context(std::string where);
    Error& set_hint(std::string hint);
    Error& set_detail(std::string detail);

    /// On one line: "what [tensor x; file y]; hint", without the detail.
    [[nodiscard]] std::string full_text() const;

  private:
    ErrorCode code_ = ErrorCode::internal;
    std::string what_;
    std::vector<std::string> where_;
    std::string hint_;
    std::string detail_;
};

}  // namespace shardweld
