// Asserts an error's code and whole text.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the statement must not be evaluated before the try
#define EXPECT_ERROR(statement, expected_code, expected_text)                               \
    try {                                                                                   \
        static_cast<void>(statement);                                                       \
        ADD_FAILURE() << "no error; expected: " << (expected_text);                         \
    } catch (const ::shardweld::Error& error) {                                             \
        EXPECT_EQ(::shardweld::name_of(error.code()), ::shardweld::name_of(expected_code)); \
        EXPECT_EQ(error.full_text(), std::string(expected_text));                           \
    }
