// Runs the tests of the modules that are named, else all: `unit_tests formats plan`. A test's
// module is the folder of its file, so that one program can have those of many modules, which
// compile and link in half the time of many programs.
#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const auto& all = *testing::UnitTest::GetInstance();
    std::string chosen;
    for (int at = 1; at < argc; ++at) {
        const auto before = chosen.size();
        for (int i = 0; i < all.total_test_suite_count(); ++i) {
            const auto& suite = *all.GetTestSuite(i);
            for (int j = 0; j < suite.total_test_count(); ++j) {
                const auto& test = *suite.GetTestInfo(j);
                if (std::filesystem::path(test.file()).parent_path().filename() == argv[at]) {
                    chosen += std::string(suite.name()) + "." + test.name() + ":";
                }
            }
        }
        if (chosen.size() == before) {
            (void)std::fprintf(stderr, "no tests in tests/unit/%s\n", argv[at]);
            return 2;
        }
    }
    if (!chosen.empty()) {
        GTEST_FLAG_SET(filter, chosen);
    }
    return RUN_ALL_TESTS();
}
