#include "striping.hpp"

#include <cerrno>
#include <system_error>

#include "core/text.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::publish {

namespace {

constexpr double kStripingLimit_s = 120;  // a busy metadata server is slow
constexpr std::size_t kMostLine = 300;
constexpr const char* kAdvice = "leave out --stripe to take the directory's own striping";

std::string why_it_failed(const std::optional<process::Ending>& ending, const std::string& said) {
    if (!ending) {
        return "cannot be started (" + std::generic_category().message(errno) + ")";
    }
    const std::string how = ending->took_too_long ? "does not end within two minutes"
                            : ending->code ? "exits with code " + std::to_string(*ending->code)
                                           : "is ended by a signal";
    return how + (said.empty() ? "" : " (" + said + ")");
}

}  // namespace

void set_striping(const fs::path& directory, const Striping& striping, const std::string& path) {
    const auto lfs = process::find_program("lfs", path);
    if (!lfs) {
        throw Error(ErrorCode::unsupported,
                    "--stripe needs Lustre's program lfs, which is not on PATH", kAdvice);
    }
    std::vector<std::string> arguments{"setstripe", "-c", std::to_string(striping.count)};
    if (striping.size != 0) {
        arguments.insert(arguments.end(), {"-S", std::to_string(striping.size)});
    }
    arguments.push_back(fs::absolute(directory).string());
    std::string said;
    const auto ending =
        process::run({*lfs, std::move(arguments), {}, kStripingLimit_s, [&](std::string_view line) {
                          said = printable(line, kMostLine);
                      }});
    if (!ending || !ending->is_success()) {
        throw Error(ErrorCode::unsupported,
                    "cannot stripe " + directory.string() + ": " + lfs->string() + " setstripe " +
                        why_it_failed(ending, said),
                    kAdvice);
    }
}

}  // namespace shardweld::publish
