#include "arguments.hpp"

#include <algorithm>

// Regular expressions would match arguments by recursion: one of 60 kB is enough to end the stack.
#define CXXOPTS_NO_REGEX
#include <cxxopts.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "nearest.hpp"

namespace shardweld::app {

namespace {

[[noreturn]] void refuse_command(const std::string& message, const CommandLine& command) {
    throw Error(ErrorCode::usage,
                message + " (see shardweld " + std::string(command.name) + " --help)");
}

std::vector<std::string> names_for(const CommandLine& command) {
    std::vector<std::string> names;
    for (const OptionLine& line : option_lines()) {
        if ((line.commands & command.bit) != 0) {
            names.push_back("--" + std::string(line.name));
        }
    }
    return names;
}

const OptionLine& find_option(const std::string& name, const CommandLine& command) {
    const auto& lines = option_lines();
    const auto line = std::find_if(lines.begin(), lines.end(),
                                   [&](const OptionLine& known) { return known.name == name; });
    const std::string shown = "--" + printable(name);
    if (line != lines.end() && (line->commands & command.bit) != 0) {
        return *line;
    }
    if (line != lines.end()) {
        refuse_command(shown + " is not an option of " + std::string(command.name), command);
    }
    if (is_later_option(name)) {
        throw Error(ErrorCode::unsupported, shown + " is not in this version yet: leave it out");
    }
    refuse_command("unknown option " + shown + suggestion("--" + name, names_for(command)),
                   command);
}

/// Short options of the command, one or several behind a dash: "-v", "-qv".
bool is_letters(const std::string& argument, const CommandLine& command) {
    const auto is_known = [&](char letter) {
        const auto& lines = option_lines();
        return std::any_of(lines.begin(), lines.end(), [&](const OptionLine& line) {
            return line.letter == letter && (line.commands & command.bit) != 0;
        });
    };
    return argument.size() > 1 && argument.front() == '-' &&
           std::all_of(argument.begin() + 1, argument.end(), is_known);
}

/// The words of an option whose value may be left out, the one it has then first; else none.
std::vector<std::string_view> implied_words(const OptionLine& option) {
    const std::string_view argument = option.argument;
    return argument.starts_with('[') ? split(argument.substr(1, argument.size() - 2), '|')
                                     : std::vector<std::string_view>();
}

/// The value in the word behind an option, where it is one.
std::string value_in(const OptionLine& option, const std::string* next,
                     const CommandLine& command) {
    const auto words = implied_words(option);
    if (!words.empty()) {
        const bool is_one = next && std::find(words.begin(), words.end(), *next) != words.end();
        return is_one ? *next : std::string(words.front());
    }
    const bool is_value = next && !next->starts_with("--") && !is_letters(*next, command);
    return is_value ? *next : "";
}

/// Long options in their canonical spelling "--name=value", checked for being known and complete.
std::vector<std::string> canonical(const CommandLine& command,
                                   const std::vector<std::string>& arguments) {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& argument = arguments[i];
        if (argument == "--") {
            result.insert(result.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                          arguments.end());
            break;
        }
        if (!argument.starts_with("--")) {
            if (argument.size() > 1 && argument.front() == '-' && !is_letters(argument, command)) {
                refuse_command("unknown option " + printable(argument) +
                                   suggestion("-" + argument, names_for(command)),
                               command);
            }
            result.push_back(argument);
            continue;
        }
        const std::size_t equals = argument.find('=');
        std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
        std::replace(name.begin(), name.end(), '-', '_');
        const OptionLine& option = find_option(name, command);
        if (option.argument.empty()) {
            if (equals != std::string::npos) {
                refuse_command("--" + name + " takes no value", command);
            }
            result.push_back("--" + name);
            continue;
        }
        std::string value;
        if (equals != std::string::npos) {
            value = argument.substr(equals + 1);
        } else {
            const std::string* next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
            value = value_in(option, next, command);
            if (next != nullptr && value == *next) {
                ++i;
            }
        }
        if (value.empty()) {
            refuse_command("--" + name + " needs a value: " + std::string(option.argument),
                           command);
        }
        result.push_back(std::string("--").append(name).append("=").append(value));
    }
    return result;
}

// Made once: each takes hundreds of small allocations.
cxxopts::Options& declared(const CommandLine& command) {
    static std::map<std::string_view, cxxopts::Options> known;
    const auto [at, is_new] = known.try_emplace(command.name, "shardweld");
    if (!is_new) {
        return at->second;
    }
    for (const OptionLine& line : option_lines()) {
        if ((line.commands & command.bit) == 0) {
            continue;
        }
        const std::string letter = line.letter == 0 ? "" : std::string(1, line.letter);
        at->second.add_option(
            "", letter, std::string(line.name), "",
            line.argument.empty() ? cxxopts::value<bool>() : cxxopts::value<std::string>(), "");
    }
    return at->second;
}

}  // namespace

Arguments split_arguments(const CommandLine& command, const std::vector<std::string>& arguments) {
    const std::vector<std::string> words = canonical(command, arguments);
    std::vector<const char*> argv{"shardweld"};
    for (const std::string& word : words) {
        argv.push_back(word.c_str());
    }
    Arguments result;
    try {
        const auto parsed = declared(command).parse(static_cast<int>(argv.size()), argv.data());
        for (const cxxopts::KeyValue& pair : parsed.arguments()) {
            if (!result.values.emplace(pair.key(), pair.value()).second) {
                refuse_command("--" + pair.key() + " is given twice", command);
            }
        }
        result.others = parsed.unmatched();
    } catch (const cxxopts::exceptions::exception& error) {
        refuse_command(printable(error.what()), command);
    }
    return result;
}

}  // namespace shardweld::app
