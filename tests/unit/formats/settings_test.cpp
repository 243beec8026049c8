#include "formats/shared/settings.hpp"

#include <functional>

#include "shardweld/error.hpp"

#include "scratch.hpp"
#include "torch_builder.hpp"

namespace shardweld::formats {
namespace {

using test::integer;
using test::unicode;

/// Of a file that holds the value.
void with_value(const std::string& pickled,
                const std::function<void(const PickleValue&, const ScalarReader&)>& act) {
    const Scratch scratch;
    scratch.file("a.pt", test::torch_file(pickled, {}));
    const auto input = io::InputFile::open(scratch.path() / "a.pt");
    const auto file = TorchFile::read(input, 0, std::nullopt, true);
    act(file.root(), ScalarReader(file, input));
}

std::string list_of(int count, const std::string& element) {
    std::string list = "](";
    for (int i = 0; i < count; ++i) {
        list += element;
    }
    return list + "e";
}

std::string entry(const std::string& name, const std::string& value) {
    return "(" + unicode(name) + value + "u";
}

TEST(TrainerSettings, lists_are_never_cut) {
    constexpr int kCount = 5000;
    with_value(list_of(kCount, integer(7)), [](const auto& value, const auto& scalars) {
        std::string expected = "[7";
        for (int i = 1; i < kCount; ++i) {
            expected += ",7";
        }
        EXPECT_EQ(json_text(value, scalars), expected + "]");
    });
}

TEST(TrainerSettings, more_values_than_a_file_has_are_refused_by_name) {
    // A list of 300 that is memoised, 300 times.
    const std::string shared = list_of(300, integer(7)) + "q\1" + "0" + list_of(300, "h\1");
    const std::string root = "}" + entry("few", list_of(3, integer(1))) + entry("many", shared);
    with_value(root, [](const auto& value, const auto& scalars) {
        expect_error(ErrorCode::unsupported, "setting many", [&] { settings_of(value, scalars); });
        expect_error(ErrorCode::unsupported, "65536 values", [&] { json_text(value, scalars); });
    });
}

TEST(TrainerSettings, more_names_than_a_group_has_are_refused) {
    std::string many = "}(";
    for (int i = 0; i < 1025; ++i) {
        many += unicode("k" + std::to_string(i)) + integer(i);
    }
    many += "u";
    with_value(many, [](const auto& value, const auto& scalars) {
        expect_error(ErrorCode::unsupported, "1025 names", [&] { settings_of(value, scalars); });
    });
    with_value("](" + many + "e", [](const auto& value, const auto& scalars) {
        expect_error(ErrorCode::unsupported, "1025 names", [&] { groups_of(&value, scalars); });
    });
}

TEST(TrainerSettings, a_dictionary_is_whole_or_nothing) {
    const std::string numbered = "}(" + integer(3) + integer(1) + "u";
    with_value("}" + entry("milestones", numbered) + entry("gamma", integer(2)),
               [](const auto& value, const auto& scalars) {
                   EXPECT_EQ(settings_of(value, scalars), (catalogue::Settings{{"gamma", "2"}}));
               });
}

}  // namespace
}  // namespace shardweld::formats
