// What people type who come from other tools, and what it is called here: one table of commands,
// one of options, one of values. Nothing in them is taken but what says so; the rest is what an
// error proposes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command_table.hpp"

namespace shardweld::app {

/// A row of it, about a command, an option or a value.
struct TypedWord {
    std::string_view at;     ///< commands that an option is typed at; the option of a value
    std::string_view typed;  ///< words in small letters, a blank between them
    std::string_view means;  ///< what to type here: "--overwrite"; "": nothing
    std::string_view text;   ///< what to know of it, a clause; "": nothing
    bool is_taken = false;   ///< it is the option named by `means`, and is taken for it
};

/// Options of other tools that mean one here, and words that sound like it.
const std::vector<TypedWord>& typed_options();
/// nullptr: nothing is known of it. `typed` may begin with dashes.
const TypedWord* find_typed_option(std::string_view typed, const CommandRow& command);

/// "did you mean --lora fold?", and what to know; "" where nothing is known.
std::string option_guess(std::string_view typed, const CommandRow& command);

/// "did you mean merge?": the command that a word stands for; "" where nothing is known.
std::string command_guess(std::string_view typed);

/// A guess at the value of an option, one of `known`; "" where nothing is known.
std::string value_guess(std::string_view option, std::string_view typed,
                        const std::vector<std::string>& known);

/// Values of other tools, and what an error proposes for them.
const std::vector<TypedWord>& typed_values();

}  // namespace shardweld::app
