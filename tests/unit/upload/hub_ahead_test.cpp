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

/// What pip and uv make of huggingface_hub's entry point.
constexpr const char* kOfPip =
    "# -*- coding: utf-8 -*-\nimport re\nimport sys\nfrom huggingface_hub.cli.hf import main\n"
    "if __name__ == '__main__':\n"
    "    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])\n"
    "    sys.exit(main())\n";
constexpr const char* kOfUv =
    "# -*- coding: utf-8 -*-\nimport sys\nfrom huggingface_hub.cli.hf import main\n"
    "if __name__ == \"__main__\":\n    if sys.argv[0].endswith(\"-script.pyw\"):\n"
    "        sys.argv[0] = sys.argv[0][:-11]\n    elif sys.argv[0].endswith(\".exe\"):\n"
    "        sys.argv[0] = sys.argv[0][:-4]\n    sys.exit(main())\n";

TEST_F(PythonOf, is_what_the_first_line_names) {
    for (const std::string program : {kOfPip, kOfUv}) {
        EXPECT_EQ(found("#!/opt/hub/bin/python3.12\n" + program), "/opt/hub/bin/python3.12");
        EXPECT_EQ(found("#!/opt/hub/bin/python -sE\n" + program), "/opt/hub/bin/python");
    }
    EXPECT_EQ(found("#!/usr/bin/env python3\n" + std::string(kOfPip)), "");  // none on PATH
    const auto python = here_.put("python3", "");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    EXPECT_EQ(found("#!/usr/bin/env python3\n" + std::string(kOfPip)), python.string());
    EXPECT_EQ(found("#! /usr/bin/env -S python3 -I\n" + std::string(kOfPip)), python.string());
}

TEST_F(PythonOf, is_what_the_second_line_runs_where_the_path_is_long) {
    EXPECT_EQ(found("#!/bin/sh\n'''exec' \"/with blanks/bin/python\" \"$0\" \"$@\"\n' '''\n" +
                    std::string(kOfPip)),
              "/with blanks/bin/python");
}

TEST_F(PythonOf, is_none_of_programs_that_do_anything_else) {
    const std::string begin = "#!/opt/hub/bin/python\n";
    for (const std::string& program :
         {std::string(), std::string("\x7f"), std::string("#!"),
          std::string("#!/bin/sh\nexec hf \"$@\"\n"), std::string("#!/bin/sh\n'''exec'"),
          "#!/bin/bash\n" + std::string(kOfPip), begin, begin + "import sys\n",
          "#!/usr/bin/env -S HF_ENDPOINT=http://there python3\n" + std::string(kOfPip),
          begin + "import os, sys\n" + kOfPip, begin + kOfPip + "import os\n",
          begin + "import sys; sys.path = []\n" + kOfPip,
          begin + kOfPip + std::string(5000, '#')}) {
        EXPECT_EQ(found(program), "") << program;
    }
}

}  // namespace
}  // namespace shardweld::upload
