// What a run tells whoever called it: warnings, messages and progress.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

namespace shardweld {

/// How much a message matters.
enum class LogLevel { error, warning, info, debug };

/// How far one phase of a run is.
struct PhaseProgress {
    std::string phase;       ///< "moving tensors"
    std::int64_t done = 0;   ///< of all ranks together, in `unit`
    std::int64_t total = 0;  ///< 0: not known
    std::string unit;        ///< "bytes", or what is counted, in the plural
    double elapsed_s = 0;    ///< since the phase began
};

/// A warning of a run, or of one of its outputs.
struct Warning {
    std::string code;    ///< a word for programs, as in docs/using/report.md
    std::string tensor;  ///< "" where it is about no single one
    std::string text;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.code, self.tensor, self.text);
    };
};

/// Receives messages and progress. Called on rank 0 only, from the thread that called the library,
/// while the run goes on: an implementation returns soon and does not throw.
class Events {
  public:
    Events() = default;
    virtual ~Events() = default;
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;

    /// A message for people: sentences, without a line end. Errors that end a run are thrown, too.
    virtual void message(LogLevel /*level*/, const std::string& /*text*/) {}
    /// At the start and the end of a phase, and about ten times a second in between.
    virtual void progress(const PhaseProgress& /*state*/) {}
};

}  // namespace shardweld
