// What people type who come from other tools, and what it is called here: one table of commands,
// one of options, one of values. Nothing in them is taken but what says so; the rest is what an
// error proposes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command_table.hpp"

namespace shardweld::app {

/// Options of other tools that mean one here, and words that sound like it.
struct TypedOption {
    std::string_view typed;  ///< words with '_', without dashes, a blank between them
    unsigned commands = 0;   ///< that it is typed at, see bit_of
    std::string_view means;  ///< what to type here: "--overwrite"; "": nothing
    std::string_view text;   ///< what to know of it, a clause; "": nothing
    bool is_taken = false;   ///< it is the option named by `means`, and is taken for it
};

/// nullptr: nothing is known of it. `typed` may begin with dashes.
const TypedOption* find_typed_option(std::string_view typed, Command command);

const std::vector<TypedOption>& typed_options();

/// "did you mean --lora fold?", and what to know; "" where nothing is known.
std::string option_guess(std::string_view typed, Command command);

/// "did you mean merge?": the command that a word stands for; "" where nothing is known.
std::string command_guess(std::string_view typed);

/// A guess at the value of an option, one of `known`; "" where nothing is known.
std::string value_guess(std::string_view option, std::string_view typed,
                        const std::vector<std::string>& known);

/// Values of other tools, and what an error proposes for them.
struct TypedValue {
    std::string_view option;
    std::string_view typed;  ///< words in small letters with '-', a blank between them
    std::string_view means;  ///< a value of the option, or another option
    std::string_view text;
};
const std::vector<TypedValue>& typed_values();

}  // namespace shardweld::app
