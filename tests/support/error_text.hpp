// What an action throws, as one text to compare.
// Knows shardweld's Error only: anything else passes through and fails the test.
#pragma once

#include <string>

#include "shardweld/error.hpp"

namespace shardweld::test {

/// "code: message" of the Error that `action` throws, "no error" when it throws none.
template <typename Action>
std::string error_text(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.full_text();
    }
    return "no error";
}

}  // namespace shardweld::test
