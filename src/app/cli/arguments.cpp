#include "arguments.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "nearest.hpp"

namespace shardweld::app {

namespace {
[[noreturn]] void refuse_command(const std::string& message, const CommandRow& command) {
    refuse(message, "shardweld " + std::string(command.name) + " --help lists the options");
}
[[noreturn]] void refuse_unknown(const std::string& argument, const std::string& typed,
                                 const CommandRow& command) {
    std::vector<std::string> known;
    for (const OptionRow& row : option_rows()) {
        if (row.is_taken_by(command.command)) {
            known.push_back("--" + std::string(row.name));
        }
    }
    const std::string message = "unknown option " + printable(argument);
    if (const std::string meant = suggestion(typed, known); !meant.empty()) {
        refuse(message, meant);
    }
    refuse_command(message, command);
}

const OptionRow& option_called(const std::string& name, const CommandRow& command) {
    const OptionRow* row = find_option(name);
    if (row != nullptr && row->is_taken_by(command.command)) {
        return *row;
    }
    if (row != nullptr) {
        refuse_command("--" + name + " is not an option of " + std::string(command.name), command);
    }
    if (is_later_option(name)) {
        throw Error(ErrorCode::unsupported, "--" + name + " is not in this version yet",
                    "leave it out");
    }
    refuse_unknown("--" + name, "--" + name, command);
}

const OptionRow* option_of_letter(char letter, const CommandRow& command) {
    const auto& rows = option_rows();
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& row) {
        return row.letter == letter && row.is_taken_by(command.command);
    });
    return found == rows.end() ? nullptr : &*found;
}

/// Short options of the command, one or several behind a dash: "-v", "-qv".
bool is_letters(const std::string& argument, const CommandRow& command) {
    return argument.size() > 1 && argument.front() == '-' &&
           std::all_of(argument.begin() + 1, argument.end(),
                       [&](char letter) { return option_of_letter(letter, command) != nullptr; });
}

/// The words of an option whose value may be left out, the one it has then first; else none.
std::vector<std::string_view> implied_words(const OptionRow& row) {
    const std::string_view value = row.value;
    return value.starts_with('[') ? split(value.substr(1, value.size() - 2), '|')
                                  : std::vector<std::string_view>();
}

class Splitter {
  public:
    Splitter(const CommandRow& command, const std::vector<std::string>& words)
        : command_(command),
          words_(words),
          is_of_merge_(command.command == Command::test &&
                       std::find(words.begin(), words.end(), "--of_merge") != words.end()) {}

    Arguments run() {
        while (at_ < words_.size()) {
            const std::string& word = words_[at_++];
            if (word == "--") {
                others_until_the_end();
            } else if (word.starts_with("--")) {
                take_long(word.substr(2));
            } else if (word.size() > 1 && word.front() == '-') {
                take_letters(word);
            } else {
                result_.others.push_back(word);
            }
        }
        return std::move(result_);
    }

  private:
    void others_until_the_end() {
        result_.others.insert(result_.others.end(),
                              words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
        at_ = words_.size();
    }

    /// "name", "name=value"; the value may be the next word.
    void take_long(const std::string& word) {
        const std::size_t equals = word.find('=');
        std::string name = word.substr(0, equals);
        std::replace(name.begin(), name.end(), '-', '_');
        const OptionRow* const known = find_option(name);
        const OptionRow& row = is_of_merge_ && known != nullptr && is_of_merge(*known)
                                   ? *known
                                   : option_called(name, command_);
        const bool has_value = equals != std::string::npos;
        if (row.is_flag()) {
            if (has_value) {
                refuse_command("--" + name + " takes no value", command_);
            }
            put(row, "true");
            return;
        }
        const std::string value = has_value ? word.substr(equals + 1) : next_value(row);
        if (value.empty()) {
            refuse_command("--" + name + " needs a value: " + std::string(row.value), command_);
        }
        put(row, value);
    }

    /// The next word, where it is a value of the option; else the implied one, "" if there is none.
    std::string next_value(const OptionRow& row) {
        const std::string next = at_ < words_.size() ? words_[at_] : "";
        const auto implied = implied_words(row);
        const bool is_value =
            implied.empty() ? !next.starts_with("--") && !is_letters(next, command_)
                            : std::find(implied.begin(), implied.end(), next) != implied.end();
        if (is_value) {
            ++at_;
            return next;
        }
        return std::string(implied.empty() ? "" : implied.front());
    }

    void take_letters(const std::string& word) {
        if (!is_letters(word, command_)) {
            refuse_unknown(word, "-" + word, command_);
        }
        for (const char letter : word.substr(1)) {
            put(*option_of_letter(letter, command_), "true");
        }
    }

    static bool is_of_merge(const OptionRow& row) { return row.is_taken_by(Command::merge); }

    void put(const OptionRow& row, const std::string& value) {
        if (is_of_merge_ && is_of_merge(row) && !row.is_given_to(Command::test)) {
            return;
        }
        const auto [known, is_new] = result_.values.emplace(row.name, value);
        if (!is_new && row.is_repeated) {
            known->second += kNextValue + value;
        } else if (!is_new) {
            refuse_command("--" + std::string(row.name) + " is given twice", command_);
        }
    }

    const CommandRow& command_;
    const std::vector<std::string>& words_;
    bool is_of_merge_;  ///< a merge's options are given to test
    std::size_t at_ = 0;
    Arguments result_;
};

}  // namespace

Arguments split_arguments(const CommandRow& command, const std::vector<std::string>& arguments) {
    return Splitter(command, arguments).run();
}

}  // namespace shardweld::app
