// Which Python a client of the Hub runs in.
#include "upload/hub_ahead.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::upload {
namespace {

class PythonOf : public ::testing::Test {
  protected:
    /// "" where there is none.
    [[nodiscard]] std::string found(const std::string& program) const {
        here_.put("hf", program);
        return python_of(here_.path() / "hf", here_.path().string()).value_or("").string();
    }
    test::TemporaryDirectory here_;
};

TEST_F(PythonOf, is_what_the_first_line_names) {
    EXPECT_EQ(found("#!/opt/hub/bin/python3.12\nimport re\n"), "/opt/hub/bin/python3.12");
    EXPECT_EQ(found("#!/opt/hub/bin/python -sE\n"), "/opt/hub/bin/python");
    EXPECT_EQ(found("#!/usr/bin/env python3\n"), "");  // there is none on PATH
    const auto python = here_.put("python3", "");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    EXPECT_EQ(found("#!/usr/bin/env python3\n"), python.string());
    EXPECT_EQ(found("#! /usr/bin/env -S python3 -I\n"), python.string());
}

TEST_F(PythonOf, is_what_the_second_line_runs_where_the_path_is_long) {
    EXPECT_EQ(found("#!/bin/sh\n'''exec' \"/with blanks/bin/python\" \"$0\" \"$@\"\n' '''\n"),
              "/with blanks/bin/python");
}

TEST_F(PythonOf, is_none_of_other_programs) {
    for (const char* program :
         {"", "\x7f", "#!", "#!/bin/sh\nexec hf \"$@\"\n", "#!/bin/sh\n'''exec'",
          "#!/bin/bash\npython -m huggingface_hub\n", "import python"}) {
        EXPECT_EQ(found(program), "") << program;
    }
}

}  // namespace
}  // namespace shardweld::upload
