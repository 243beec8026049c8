// The store that a command reaches, file by file.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/names.hpp"
#include "core/redact.hpp"
#include "core/text.hpp"
#include "io/digest.hpp"
#include "process/command.hpp"
#include "shardweld/error.hpp"

#include "store.hpp"

namespace shardweld::upload {

namespace {

constexpr std::string_view kPlaceHolder = "{}";
constexpr std::size_t kLastLines = 3;
constexpr std::size_t kMostShown = 1000;

/// The secrets in this process's environment, and the Hub's tokens.
std::vector<std::string> secrets_here(const Environment& environment) {
    std::vector<std::string> secrets = find_tokens(environment).values;
    std::ranges::copy(secrets_of_environment(), std::back_inserter(secrets));
    return secrets;
}

/// Which files go first: weights, then what is small, then what names them.
int turn_of(const std::string& name) {
    const std::string own = fs::path(name).filename();
    return own == "config.json" || own.ends_with(".index.json") ? 2 : is_weights(own) ? 0 : 1;
}

std::string key_of(const std::string& command) {
    const std::string all = command + '\0' + fs::current_path().string();
    return io::hex(io::digest_of(std::as_bytes(std::span(all))));
}

class CommandStore final : public Store {
  public:
    CommandStore(PutRequest request, const Environment& environment)
        : request_(std::move(request)),
          words_(process::words_of(request_.command).value()),
          secrets_(secrets_here(environment)),
          shown_(redacted(request_.command, secrets_)),
          key_(key_of(request_.command)) {
        const auto found = process::program_named(words_.front());
        if (!found) {
            throw Error(ErrorCode::no_client,
                        "there is no program " + printable(words_.front()) + " to run (--put)",
                        "install it, or give its path");
        }
        program_ = *found;
    }

    [[nodiscard]] std::string place() const override {
        return "with " + printable(shown_, kMostShown);
    }
    [[nodiscard]] const fs::path& client() const override { return program_; }
    void send(const fs::path& directory, const Telling& telling) override;
    void send_ahead(const fs::path& directory, const std::string& name,
                    const std::function<bool()>& is_over) override {
        put(directory, name, {}, is_over);
    }
    [[nodiscard]] PutPlace own_place() const override { return {key_, place()}; }
    [[nodiscard]] bool note_ahead(const fs::path& directory,
                                  const std::string& name) const override {
        return PutRecord(directory / request_.record, own_place())
            .add(name, look_at(directory / name));
    }

  private:
    [[nodiscard]] std::vector<std::string> arguments_for(const fs::path& directory,
                                                         const std::string& name) const;
    void put(const fs::path& directory, const std::string& name,
             const std::function<void(std::string_view)>& on_line,
             const std::function<bool()>& is_over = {}) const;
    [[nodiscard]] Error failure(ErrorCode code, const fs::path& directory,
                                const std::string& what) const;

    PutRequest request_;
    std::vector<std::string> words_;
    std::vector<std::string> secrets_;
    std::string shown_;  ///< the command without its secrets
    std::string key_;    ///< of the command as it is, and of the directory that its paths begin at
    fs::path program_;
};

std::vector<std::string> CommandStore::arguments_for(const fs::path& directory,
                                                     const std::string& name) const {
    std::vector<std::string> arguments;
    for (std::size_t at = 1; at < words_.size(); ++at) {
        // Absolute, so that no name looks like an option.
        arguments.push_back(words_[at] == kPlaceHolder ? fs::absolute(directory / name).string()
                                                       : replaced(words_[at], kPlaceHolder, name));
    }
    return arguments;
}

Error CommandStore::failure(ErrorCode code, const fs::path& directory,
                            const std::string& what) const {
    return {code, what,
            "what was put is not put again; then: shardweld upload " +
                process::shell_word(directory.string()) + " --put " + process::shell_word(shown_)};
}

void CommandStore::put(const fs::path& directory, const std::string& name,
                       const std::function<void(std::string_view)>& on_line,
                       const std::function<bool()>& is_over) const {
    // The command may be a shell's; some names are the checkpoint's (a tokenizer's code).
    if (!std::ranges::all_of(split(name, '/'), is_plain_name)) {
        throw failure(ErrorCode::unsupported, directory,
                      "no command is given the name " + printable(name) +
                          ": it holds more than letters, digits, \".\", \"_\" and \"-\"");
    }
    std::deque<std::string> last;
    process::Process command{program_, arguments_for(directory, name), {}, {}, {}};
    command.withheld = process::variables_of_ranks();
    command.is_over = is_over;
    command.on_line = [&](std::string_view line) {
        last.push_back(printable(redacted(line, secrets_), kMostShown));
        if (on_line) {
            on_line(last.back());
        }
        if (last.size() > kLastLines) {
            last.pop_front();
        }
    };
    const auto ending = process::run(command);
    const std::string fault = process::fault_of(ending);
    if (fault.empty()) {
        return;
    }
    if (ending && ending->was_stopped) {
        throw failure(ErrorCode::interrupted, directory,
                      "stopped by a signal while " + name + " was put " + place());
    }
    throw failure(ending ? ErrorCode::interrupted : ErrorCode::no_client, directory,
                  name + " was not put " + place() + ": " + program_.string() + " " + fault +
                      (last.empty() ? "" : "; it says: " + joined(last, " / ")));
}

void CommandStore::send(const fs::path& directory, const Telling& telling) {
    try {
        check_sent(directory);
    } catch (const Error& error) {
        throw failure(error.code(), directory, std::string("nothing was put: ") + error.what());
    }
    std::vector<ModelFile> files = files_sent(directory, request_.kept_back);
    std::ranges::sort(
        files, {}, [](const ModelFile& file) { return std::tuple(turn_of(file.name), file.name); });
    PutRecord record(directory / request_.record, own_place());
    Bytes sent = 0;
    bool is_told = false;
    for (const ModelFile& file : files) {
        const PutFile now = look_at(directory / file.name);
        if (!record.has(file.name, now)) {
            if (const std::string why = telling.why_stop ? telling.why_stop() : ""; !why.empty()) {
                throw failure(ErrorCode::interrupted, directory,
                              why + ", before " + file.name + " was put " + place());
            }
            put(directory, file.name, telling.line);
            if (!record.add(file.name, now) && !std::exchange(is_told, true)) {
                telling.note(request_.record + " cannot be written in " + directory.string() +
                             ": what was put is put again another time");
            }
        }
        telling.sent(sent += file.size);
    }
}

}  // namespace

std::string fault_of_put(const std::string& command) {
    const auto words = process::words_of(command);
    const auto has_file = [](const std::string& word) {
        return word.find(kPlaceHolder) != std::string::npos;
    };
    if (!words) {
        return "is not a command line: a quote has no end";
    }
    if (words->empty() || words->front().empty() || has_file(words->front())) {
        return "names no program";
    }
    return std::ranges::any_of(*words, has_file) ? "" : "has no {}, which stands for the file";
}

std::unique_ptr<Store> command_store(const PutRequest& request, const Environment& environment) {
    return std::make_unique<CommandStore>(request, environment);
}

}  // namespace shardweld::upload
