// Names and sizes of models, as gguf-py 0.19 makes them (Metadata.id_to_title, size_label).
#include "outputs/gguf.hpp"

#include <array>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld::outputs {
namespace {

TEST(Gguf, titles_names_as_gguf_py_does) {
    constexpr std::array<std::pair<const char*, const char*>, 8> kTitles = {
        {{"meta-llama/Llama-2-7b-hf", "Llama 2 7b Hf"},
         {"qwen2-0.5b-instruct", "Qwen2 0.5b Instruct"},
         {"./my model", "./My Model"},
         {"Qwen/Qwen3-30B-A3B", "Qwen3 30B A3B"},
         {"v1.5-base", "v1.5 Base"},
         {"llama3.1", "Llama3.1"},
         {"deepseek_v2b", "Deepseek_V2B"},
         {"-x--y-", "X Y"}}};
    for (const auto& [name, title] : kTitles) {
        EXPECT_EQ(gguf_title(name), title);
    }
}

TEST(Gguf, labels_sizes_as_gguf_py_does) {
    constexpr std::array<std::pair<Index, const char*>, 9> kLabels = {
        {{0, "0.00K"},
         {949, "0.9K"},
         {1500, "1.5K"},
         {9500, "10K"},
         {999'999, "1000K"},
         {1'000'000, "1000K"},
         {6'738'415'616, "6.7B"},
         {1'543'714'304, "1.5B"},
         {1'026'000'000'001, "1.0T"}}};
    for (const auto& [count, label] : kLabels) {
        EXPECT_EQ(gguf_size_label(std::array{GgufSize{count, 0}}), label);
    }
    const std::vector<GgufSize> experts = {
        {1'605'000'000, 0}, {8 * Index{5'637'144'000}, 8}, {8 * Index{576}, 8}};
    EXPECT_EQ(gguf_size_label(experts), "8x7.2B");
}

}  // namespace
}  // namespace shardweld::outputs
