#include "outputs/layout_like.hpp"

#include <gtest/gtest.h>

namespace shardweld::outputs {
namespace {

/// Bytes instead of a header: what is kept is not looked into.
const std::string& header() {
    static const std::string bytes = "its header";
    return bytes;
}

/// Two files, in an order that is not that of names, with an index that is true of them.
ReferenceLayout reference() {
    ReferenceLayout layout;
    layout.directory = "REF";
    layout.files = {{"b.safetensors", header(), {{"w3", DType::u8, {3}}, {"w1", DType::bf16, {2}}}},
                    {"c.safetensors", header(), {{"w2", DType::f32, {4}}}}};
    layout.index = {"b.safetensors.index.json",
                    R"({"weight_map":{"w1":"b.safetensors","w2":"c.safetensors","w3":)"
                    R"("b.safetensors"},"metadata":{"total_size":1}})"};
    return layout;
}

Placement placed(const std::vector<OutputTensor>& tensors, const ReferenceLayout& like) {
    return format_like(std::make_shared<const ReferenceLayout>(like))->place(tensors, 1000);
}

const std::vector<OutputTensor>& same() {
    static const std::vector<OutputTensor> all = {
        {"w1", DType::bf16, {2}}, {"w2", DType::f32, {4}}, {"w3", DType::u8, {3}}};
    return all;
}

TEST(LayoutLike, same_tensors_get_headers_order_and_index) {
    const Placement found = placed(same(), reference());
    ASSERT_EQ(found.files.size(), 2U);
    EXPECT_EQ(found.files[0].name, "b.safetensors");
    EXPECT_EQ(found.files[0].header, header());
    EXPECT_EQ(found.files[0].tensors, (std::vector<std::uint32_t>{2, 0}));
    EXPECT_EQ(found.slots[0].offset,
              header().size() + 3);  // where the reference has it, aligned or not
    EXPECT_EQ(found.files[0].size, header().size() + 7);
    EXPECT_EQ(found.tensor_bytes, 23U);
    ASSERT_EQ(found.side_files.size(), 1U);
    EXPECT_EQ(found.side_files[0].text, reference().index->text);  // though its total is odd
}

TEST(LayoutLike, what_differs_gets_a_header_of_its_own_and_aligned_elements) {
    std::vector<OutputTensor> tensors = same();
    tensors[0].shape = {5};
    const Placement found = placed(tensors, reference());
    EXPECT_NE(found.files[0].header, header());
    EXPECT_EQ(found.files[0].header.size() % 4096, 0U);
    EXPECT_EQ(found.files[0].tensors, (std::vector<std::uint32_t>{0, 2}));
    EXPECT_EQ(found.files[1].header, header());
    EXPECT_EQ(found.side_files.at(0).name, "b.safetensors.index.json");
    EXPECT_NE(found.side_files.at(0).text, reference().index->text);  // whose total would be false
}

TEST(LayoutLike, a_header_that_says_more_than_its_tensors_is_not_kept) {
    ReferenceLayout like = reference();
    like.files[1].header = "";
    const Placement found = placed(same(), like);
    EXPECT_EQ(found.files[0].header, header());
    EXPECT_EQ(found.files[1].header.size() % 4096, 0U);
    EXPECT_EQ(agreement(like, same(), found).own, std::vector<std::string>{"c.safetensors"});
}

TEST(LayoutLike, what_the_reference_lacks_has_names_of_its_own) {
    std::vector<OutputTensor> tensors = same();
    tensors.push_back({"w4", DType::f32, {200}});
    tensors.push_back({"w5", DType::f32, {200}});
    ReferenceLayout like = reference();
    like.files[1].name = "model-extra.safetensors";  // of an earlier merge
    const Placement found = placed(tensors, like);
    ASSERT_EQ(found.files.size(), 4U);
    EXPECT_EQ(found.files[2].name, "model-extra2-00001-of-00002.safetensors");
    EXPECT_EQ(found.files[3].tensors, std::vector<std::uint32_t>{4});
    EXPECT_EQ(found.slots[4].file, 3U);
    EXPECT_EQ(agreement(like, tensors, found).extra, (std::vector<std::string>{"w4", "w5"}));
}

TEST(LayoutLike, files_of_which_nothing_is_left_are_not_written) {
    const std::vector<OutputTensor> tensors = {{"w2", DType::bf16, {4}}};
    const Placement found = placed(tensors, reference());
    ASSERT_EQ(found.files.size(), 1U);
    const LayoutAgreement differs = agreement(reference(), tensors, found);
    EXPECT_EQ(differs.unwritten, std::vector<std::string>{"b.safetensors"});
    EXPECT_EQ(differs.lacking, (std::vector<std::string>{"w1", "w3"}));
    EXPECT_EQ(differs.dtypes, std::vector<std::string>{"w2"});
    EXPECT_EQ(differs.their_dtype, DType::f32);
}

TEST(LayoutLike, scales_lie_with_their_codes) {
    std::vector<OutputTensor> tensors = same();
    tensors[1].is_made_with_last = true;
    const Placement found = placed(tensors, reference());
    EXPECT_EQ(found.slots[1].file, found.slots[0].file);
    EXPECT_EQ(found.files.size(), 1U);
}

}  // namespace
}  // namespace shardweld::outputs
