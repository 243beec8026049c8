#include "parse_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "app/runtime/external.hpp"
#include "app/settings/nearest.hpp"
#include "app/settings/option_table.hpp"
#include "app/settings/settle.hpp"
#include "app/settings/typed_words.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// What a merge of the same is given: for people as it was typed, with a place to write to, and for
/// job scripts, which are made of JSON, with absolute paths.
std::vector<std::string> merge_words(const Job& job) {
    const bool is_shown = !(job.command == Command::plan && job.run.json);
    const auto shown = [&](const fs::path& path) {
        return is_shown ? path.string() : fs::absolute(path).string();
    };
    std::vector<std::string> words;
    for (const OptionRow& row : option_rows()) {
        const auto given = job.given.find(row.name);
        if (given == job.given.end() || !row.is_given_to(Command::merge) || row.name == "json") {
            continue;
        }
        const std::string name = "--" + given->first;
        for (const std::string_view text : split(given->second, kNextValue)) {
            const std::string value = row.is_path(text) ? shown(text) : std::string(text);
            if (row.is_flag()) {
                words.push_back(name);
            } else if (value.starts_with("-")) {
                words.push_back(name + "=" + value);
            } else {
                words.insert(words.end(), {name, value});
            }
        }
    }
    const std::vector<fs::path> checkpoints = averaged(job);
    std::transform(checkpoints.begin() + 1, checkpoints.end(), std::back_inserter(words), shown);
    if (is_shown && !job.has("target_dir")) {
        words.insert(words.end(), {"--target_dir", "OUT"});
    }
    return words;
}

/// The command as it is typed: some have two words.
std::string typed_name(const CommandRow& command) {
    return replaced(std::string(command.name), "-", " ");
}

[[noreturn]] void refuse_command(const std::string& message, const CommandRow& command) {
    refuse(message, "shardweld " + typed_name(command) + " --help lists the options");
}
[[noreturn]] void refuse_unknown(const std::string& argument, const std::string& typed,
                                 const CommandRow& command) {
    std::vector<std::string> known = collect_list(
        rows_for(command), [](const OptionRow& row) { return "--" + std::string(row.name); },
        [&](const OptionRow& row) { return row.is_taken_by(command.command); });
    const std::string message = "unknown option " + printable(argument);
    for (const std::string& meant : {option_guess(typed, command), suggestion(typed, known)}) {
        if (!meant.empty()) {
            refuse(message, meant);
        }
    }
    refuse_command(message, command);
}

/// The option belongs to other commands.
[[noreturn]] void refuse_elsewhere(const OptionRow& row, const CommandRow& command) {
    const std::string name = "--" + std::string(row.name);
    const std::string guess = option_guess(name, command);
    std::vector<std::string_view> takers = collect_list<std::string_view>(
        command_rows(), &CommandRow::name,
        [&](const CommandRow& other) { return row.is_taken_by(other.command); });
    refuse(name + " is not an option of " + typed_name(command),
           guess.empty() ? "it is one of " + joined(takers, ", ") + "; shardweld " +
                               typed_name(command) + " --help lists its own"
                         : guess);
}

const OptionRow& option_called(const std::string& name, const CommandRow& command) {
    const OptionRow* row = find_option(name, command);
    const TypedWord* const typed = find_typed_option(name, command);
    if (row == nullptr && typed != nullptr && typed->is_taken) {
        row = find_option(typed->means.substr(2), command);
    }
    if (row != nullptr && row->is_taken_by(command.command)) {
        return *row;
    }
    if (row != nullptr) {
        refuse_elsewhere(*row, command);
    }
    if (is_later_option(name)) {
        throw Error(ErrorCode::unsupported, "--" + name + " is not in this version yet",
                    "leave it out");
    }
    refuse_unknown("--" + name, "--" + name, command);
}

const OptionRow* option_of_letter(char letter, const CommandRow& command) {
    return find_where(rows_for(command), [&](const OptionRow& row) {
        return row.letter == letter && row.is_taken_by(command.command);
    });
}

/// Short options of the command, one or several behind a dash: "-v", "-qv".
bool is_letters(const std::string& argument, const CommandRow& command) {
    return argument.size() > 1 && argument.front() == '-' &&
           std::all_of(argument.begin() + 1, argument.end(),
                       [&](char letter) { return option_of_letter(letter, command) != nullptr; });
}

/// A path as it is meant: what a shell would make of a tilde that came in quotes or behind "=".
std::string without_tilde(const std::string& text) {
    const std::string first = text.substr(0, text.find('/'));
    if (!first.starts_with('~') || io::kind_at(first) != io::FileKind::none) {
        return text;
    }
    const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): no threads yet
    if (first == "~" && home != nullptr) {
        return home + text.substr(1);
    }
    refuse(printable(text) + " begins with a tilde that no shell has replaced",
           "write the directory out, without ~");
}

/// Keeps what an option is given, once if it is not repeated.
void keep(const OptionRow& row, const std::string& value, GivenTexts& given) {
    const auto [known, is_new] = given.emplace(row.name, value);
    if (!is_new && !row.is_repeated) {
        refuse(
            "--" + known->first + " is given twice" +
                (row.is_flag() ? "" : ": " + printable(known->second) + " and " + printable(value)),
            "give it once");
    }
    known->second += is_new ? "" : kNextValue + value;
}

/// Sorts the words behind the command's name. Error(usage), Error(unsupported) as parse_options.
class Splitter {
  public:
    Splitter(const CommandRow& command, const std::vector<std::string>& words)
        : command_(command),
          words_(words),
          is_of_merge_(command.command == Command::test && contains(words, "--of_merge")) {
        while (at_ < words_.size()) {
            const std::string& word = words_[at_++];
            if (word == "--") {
                auto& rest = command_.command == Command::mount ? program : others;
                rest.insert(rest.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_),
                            words_.end());
                at_ = words_.size();
            } else if (word.starts_with("--")) {
                take_long(word.substr(2));
            } else if (word.size() > 1 && word.front() == '-') {
                take_letters(word);
            } else {
                others.push_back(without_tilde(word));
            }
        }
    }

    GivenTexts given;
    std::vector<std::string> others;   ///< plain arguments
    std::vector<std::string> program;  ///< that is run while a model is mounted

  private:
    /// "name", "name=value"; the value may be the next word.
    void take_long(const std::string& word) {
        const std::size_t equals = word.find('=');
        const std::string name = replaced(word.substr(0, equals), "-", "_");
        const OptionRow* const known = find_option(name);
        const OptionRow& row =
            is_of_merge_ && known != nullptr && known->is_taken_by(Command::merge)
                ? *known
                : option_called(name, command_);
        const bool has_value = equals != std::string::npos;
        if (row.is_flag() && has_value) {
            refuse_command("--" + name + " takes no value", command_);
        }
        const std::string value = row.is_flag() ? "true"
                                  : has_value   ? word.substr(equals + 1)
                                                : next_value(row);
        if (value.empty()) {
            refuse_command("--" + name + " needs a value: " + std::string(row.value), command_);
        }
        put(row, row.names_path() ? without_tilde(value) : value);
    }

    /// The next word, where it is a value of the option; else the implied one, "" if there is none.
    std::string next_value(const OptionRow& row) {
        std::string next = at_ < words_.size() ? words_[at_] : "";
        const bool is_value = row.may_lack_value()
                                  ? contains(row.set.words, next)
                                  : !next.starts_with("--") && !is_letters(next, command_);
        if (is_value) {
            ++at_;
            return next;
        }
        return row.may_lack_value() ? row.set.words.front() : "";
    }

    void take_letters(const std::string& word) {
        // As vLLM's: -tp 8.
        const std::string name = word.substr(1, word.find('=') - 1);
        const OptionRow* const row = name.size() == 2 ? find_option(name, command_) : nullptr;
        if (row != nullptr && row->is_taken_by(command_.command)) {
            take_long(word.substr(1));
            return;
        }
        if (!is_letters(word, command_)) {
            refuse_unknown(word, "-" + word, command_);
        }
        for (const char letter : word.substr(1)) {
            put(*option_of_letter(letter, command_), "true");
        }
    }

    void put(const OptionRow& row, const std::string& value) {
        if (is_of_merge_ && row.is_taken_by(Command::merge) && !row.is_given_to(Command::test)) {
            return;
        }
        keep(row, value, given);
    }

    const CommandRow& command_;
    const std::vector<std::string>& words_;
    bool is_of_merge_;  ///< a merge's options are given to test
    std::size_t at_ = 0;
};

/// Where there are several checkpoints, each plain argument is one, but for the last where it
/// stands for what the command writes to or compares with. The first is the value of local_dir.
void place_checkpoints(const CommandRow& command, Job& job, std::vector<std::string>& others) {
    const std::string_view last = command.others.back();
    if (command.command != Command::plan && !job.has(last) && others.size() > 1) {
        job.given.emplace(last, others.back());
        others.pop_back();
    }
    const bool has_first = job.has("local_dir") || others.empty();
    if (!has_first) {
        job.given.emplace("local_dir", others.front());
    }
    std::for_each(others.begin() + (has_first ? 0 : 1), others.end(),
                  [&](const std::string& other) { add_checkpoint(other, job); });
    others.clear();
}

/// A plain argument is the value of the option that it stands for; the last one may take the rest.
void place_others(const CommandRow& command, const std::vector<std::string>& others,
                  GivenTexts& given) {
    std::vector<const OptionRow*> rows =
        collect_list(command.others, [&](auto name) { return find_option(name, command); });
    if (!rows.empty() && rows.back()->is_repeated) {
        rows.resize(std::max(rows.size(), others.size()), rows.back());
    }
    if (others.size() > rows.size()) {
        refuse("unexpected argument " + printable(others.back()),
               find_option("average")->is_taken_by(command.command)
                   ? "several checkpoints become one model with --average: shardweld " +
                         std::string(command.name) + " --average " + process::shell_line(others)
                   : "usage: " + std::string(command.usage));
    }
    for (const std::size_t i : indices(others)) {
        keep(*rows[i], others[i], given);
    }
}

/// A directory in a command's place.
bool is_place(const std::string& word) {
    return !word.starts_with('-') && (has_part(word, '/') || io::is_directory(word));
}

/// What the first word asks for; a directory alone is inspected.
CommandRow find_command(const std::string& name) {
    std::vector<std::string> known{"help"};
    for (const CommandRow& row : command_rows()) {
        if (row.name == name) {
            return row;
        }
        known.emplace_back(row.name);
    }
    if (find_installed_command(name)) {
        return installed_row(name);
    }
    append_all(known, installed_commands());
    if (is_place(name)) {
        return find_command("inspect");
    }
    if (name.starts_with('-')) {
        refuse("no command is given before " + printable(name),
               "the command comes first, for example: shardweld merge " + printable(name) + " ...");
    }
    for (const std::string& meant : {command_guess(name), suggestion(name, known)}) {
        if (!meant.empty()) {
            refuse("unknown command " + printable(name), meant);
        }
    }
    refuse(printable(name) + " is neither a command nor a directory",
           "give one of " + joined(command_rows(), ", ", [](auto& row) { return row.name; }) +
               " and help");
}

/// A directory alone is inspected, but who names a second one, or an option of merge, has forgotten
/// a word.
void require_command(const std::vector<std::string>& words) {
    const bool has_second =
        std::any_of(words.begin() + 1, words.end(), [](const std::string& word) {
            const std::string name = replaced(word.substr(0, word.find('=')), "-", "_");
            const OptionRow* const row =
                word.starts_with("--") ? find_option(name.substr(2)) : nullptr;
            return row != nullptr && row->is_taken_by(Command::merge) &&
                   !row->is_taken_by(Command::inspect);
        });
    if (has_second || (words.size() > 1 && !words[1].starts_with('-'))) {
        refuse("no command is given before " + printable(words.front()),
               "did you mean shardweld merge " + process::shell_line(words) + "?");
    }
}

bool asks_for_help(const std::string& argument) {
    return argument == "-h" || argument == "--help";
}

bool asks_for_more(const std::string& argument) {
    return argument == "-v" || argument == "--verbose";
}

}  // namespace

Job parse_options(const std::vector<std::string>& arguments) {
    if (arguments.size() < 2) {
        refuse("no command is given; these are the commands:\n" + commands_text(),
               "begin with shardweld merge CHECKPOINT OUT; shardweld COMMAND -h tells more");
    }
    Job job;
    job.arguments = arguments;
    const std::string& first = arguments[1];
    if (first == "--version" || first == "-V" || first == "version") {
        job.command = Command::version;
        if (std::any_of(arguments.begin() + 2, arguments.end(), asks_for_more)) {
            job.run.log_level = LogLevel::debug;
        }
        return job;
    }
    if (asks_for_help(first) || first == "help") {
        for (std::size_t i = 2; i < arguments.size(); ++i) {
            if (arguments[i] == "--json") {
                job.help = HelpForm::json;
            } else if (job.topic.empty()) {
                job.topic = arguments[i];
            }
        }
        return job;
    }
    const CommandRow command = find_command(first);
    const bool is_named = command.name == first;
    const std::vector<std::string> rest(arguments.begin() + (is_named ? 2 : 1), arguments.end());
    const auto others = std::ranges::find(rest, "--");
    if (const auto asked = std::find_if(rest.begin(), others, asks_for_help); asked != others) {
        job.topic = command.name;
        job.help = *asked == "-h" ? HelpForm::brief : HelpForm::whole;
        return job;
    }
    if (!is_named) {
        require_command(rest);
    }
    job.command = command.command;
    job.outputs.front().keeps_report =
        command.command == Command::merge || command.command == Command::plan;
    Splitter split(command, rest);
    job.given = std::move(split.given);
    job.run.program = std::move(split.program);
    if (job.has("average") || job.has("task_arithmetic")) {
        place_checkpoints(command, job, split.others);
    }
    if (command.command == Command::external) {
        job.installed = {first};
        if (command.others.empty()) {  // they are the other command's
            for (const std::string& other : std::exchange(split.others, {})) {
                job.installed.push_back("--passed_on=" + other);
            }
        }
    }
    place_others(command, split.others, job.given);
    for (const std::string_view name : command.needed) {
        if (!job.has(name)) {
            refuse("no --" + std::string(name) + " is given",
                   "usage: " + std::string(command.usage));
        }
    }
    put_values(job.given, rows_for(command), job);
    if (command.command == Command::external) {
        return job;
    }
    job = settled(std::move(job), command);
    if (job.command == Command::inspect || job.command == Command::plan) {
        job.merge_words = merge_words(job);
    }
    return job;
}

}  // namespace shardweld::app
