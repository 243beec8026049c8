#include "holder.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <unistd.h>

#include "core/host.hpp"
#include "core/text.hpp"

namespace shardweld::publish {

namespace {

constexpr const char* kUnknown = "-";

std::string word(const std::string& text) {
    return text.empty() ? kUnknown : text;
}

}  // namespace

Holder this_process(std::string job, Index restarts) {
    return {host_name(), ::getpid(), std::move(job), restarts, boot_id()};
}

std::string text_of(const Holder& holder) {
    return word(holder.host) + " " + std::to_string(holder.process) + " " + word(holder.job) + " " +
           std::to_string(holder.restarts) + " " + word(holder.boot) + "\n";
}

Holder holder_from(const std::string& text) {
    Holder holder;
    const auto words = split(trim(text), ' ');
    const auto at = [&](std::size_t index) {
        const bool is_there = index < words.size() && words[index] != kUnknown;
        return is_there ? std::string(words[index]) : std::string();
    };
    holder.host = at(0);
    holder.process = parse_index(at(1)).value_or(0);
    holder.job = at(2);
    holder.restarts = parse_index(at(3)).value_or(0);
    holder.boot = at(4);
    return holder;
}

std::string name_of(const Holder& holder) {
    if (holder.host.empty() || holder.process <= 0) {
        return "a process that left no name";
    }
    return "process " + std::to_string(holder.process) +
           (holder.job.empty() ? "" : " of job " + printable(holder.job)) + " on host " +
           printable(holder.host);
}

bool is_over(const Holder& holder, const Holder& own) {
    if (!holder.job.empty() && holder.job == own.job && holder.restarts < own.restarts) {
        return true;
    }
    if (holder.host != own.host || holder.process <= 0) {
        return false;
    }
    return (!holder.boot.empty() && !own.boot.empty() && holder.boot != own.boot) ||
           (::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH);
}

}  // namespace shardweld::publish
