#include "shardweld/error.hpp"

#include <algorithm>
#include <utility>

#include "lists.hpp"

namespace shardweld {

namespace {

/// "file /path/NAME" and "file /path/NAME at offset 5" say all that "file NAME" does.
bool says_file(std::string_view known, std::string_view where) {
    constexpr std::string_view kFile = "file ";
    if (!known.starts_with(kFile) || !where.starts_with(kFile)) {
        return false;
    }
    const std::string name = "/" + std::string(where.substr(kFile.size()));
    const auto at = known.find(name);
    return at != std::string_view::npos &&
           (at + name.size() == known.size() || known[at + name.size()] == ' ');
}

}  // namespace

std::string_view name_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::ok:
            return "ok";
        case ErrorCode::usage:
            return "usage";
        case ErrorCode::not_found:
            return "not_found";
        case ErrorCode::corrupt:
            return "corrupt";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::mismatch:
            return "mismatch";
        case ErrorCode::io:
            return "io";
        case ErrorCode::space:
            return "space";
        case ErrorCode::memory:
            return "memory";
        case ErrorCode::launch:
            return "launch";
        case ErrorCode::stopped:
            return "stopped";
        case ErrorCode::target:
            return "target";
        case ErrorCode::differs:
            return "differs";
        case ErrorCode::strict:
            return "strict";
        case ErrorCode::locked:
            return "locked";
        case ErrorCode::incomplete:
            return "incomplete";
        case ErrorCode::no_client:
            return "no_client";
        case ErrorCode::no_token:
            return "no_token";
        case ErrorCode::no_rights:
            return "no_rights";
        case ErrorCode::no_repository:
            return "no_repository";
        case ErrorCode::no_network:
            return "no_network";
        case ErrorCode::interrupted:
            return "interrupted";
        case ErrorCode::internal:
            return "internal";
    }
    return "internal";
}

Error& Error::add_context(std::string where) {
    const auto covers = [&](const std::string& known) { return says_file(known, where); };
    if (std::ranges::none_of(where_, covers)) {
        where_.push_back(std::move(where));
    }
    return *this;
}

Error& Error::set_hint(std::string hint) {
    hint_ = std::move(hint);
    return *this;
}

Error& Error::set_detail(std::string detail) {
    detail_ = std::move(detail);
    return *this;
}

std::string Error::full_text() const {
    std::string text = what();
    for (const std::size_t i : indices(where_)) {
        text += (i == 0 ? " [" : "; ") + where_[i];
    }
    text += where_.empty() ? "" : "]";
    return hint_.empty() ? text : text + "; " + hint_;
}

}  // namespace shardweld
