#include "regex.hpp"

#include <re2/re2.h>

#include "shardweld/error.hpp"

namespace shardweld {

namespace {

// Memory of one expression; RE2 refuses those that would need more.
constexpr std::int64_t kMostBytes = 8 << 20;

RE2::Options options() {
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(kMostBytes);
    // Names are bytes: one that is no UTF-8 is found all the same.
    options.set_encoding(RE2::Options::EncodingLatin1);
    return options;
}

}  // namespace

struct Regex::Compiled {
    explicit Compiled(const std::string& expression) : re(expression, options()) {}
    RE2 re;
};

Regex::Regex(const std::string& expression)
    : compiled_(std::make_shared<const Compiled>(expression)) {
    if (!compiled_->re.ok()) {
        throw Error(ErrorCode::usage, compiled_->re.error());
    }
}

bool Regex::is_found_in(std::string_view text) const {
    return RE2::PartialMatch({text.data(), text.size()}, compiled_->re);
}

bool Regex::matches(std::string_view text) const {
    return RE2::FullMatch({text.data(), text.size()}, compiled_->re);
}

}  // namespace shardweld
