#include "publish/assets.hpp"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

using test::content_of;
using test::TemporaryDirectory;

TEST(CollectAssets, takes_what_a_model_directory_needs_beside_the_weights) {
    const TemporaryDirectory hf;
    for (const char* name :
         {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
          "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "special_tokens_map.json",
          "added_tokens.json", "chat_template.jinja", "chat_template.json",
          "chat_templates/tool.jinja", "additional_chat_templates/rag.jinja",
          "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
          "qwen.tiktoken", "modeling_own.py", "spiece.model", "tekken.json",
          // All of these stay behind.
          "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json",
          "pytorch_model.bin", "consolidated.00.pt", "README.md", "LICENSE", ".gitattributes",
          ".tokenizer.json.swp", "tokenizer.safetensors", "vocab.index.json", ".git/config",
          "runs/events.py", "training_args.bin", "trainer_state.json"}) {
        hf.put(name);
    }
    EXPECT_EQ(names_of(collect_assets(hf.path())),
              (std::vector<std::string>{"added_tokens.json",
                                        "additional_chat_templates/rag.jinja",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "chat_templates/tool.jinja",
                                        "generation_config.json",
                                        "merges.txt",
                                        "modeling_own.py",
                                        "preprocessor_config.json",
                                        "processor_config.json",
                                        "qwen.tiktoken",
                                        "special_tokens_map.json",
                                        "spiece.model",
                                        "tekken.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "video_preprocessor_config.json",
                                        "vocab.json",
                                        "vocab.txt"}));
}

TEST(CollectAssets, follows_links_to_files_and_leaves_everything_else) {
    const TemporaryDirectory hf;
    hf.put("blobs/abc", "the content");
    fs::create_symlink(hf.path() / "blobs/abc", hf.path() / "tokenizer.json");
    fs::create_symlink(hf.path() / "nowhere", hf.path() / "vocab.json");
    fs::create_directory(hf.path() / "tokenizer");
    fs::create_directory(hf.path() / "chat_template.jinja");
    fs::create_directory(hf.path() / "chat_templates");
    fs::create_symlink("../../blobs/tool", hf.path() / "chat_templates/tool.jinja");
    fs::create_symlink("nowhere", hf.path() / "README.md");
    ASSERT_EQ(::mkfifo((hf.path() / "merges.txt").c_str(), 0600), 0);
    const std::vector<Asset> found = collect_assets(hf.path());
    ASSERT_EQ(names_of(found), std::vector<std::string>{"tokenizer.json"});
    EXPECT_EQ(found[0].source, hf.path() / "tokenizer.json");
    EXPECT_EQ(found[0].text, "the content");
    EXPECT_EQ(
        lost_assets(hf.path()),
        (std::vector<std::string>{"chat_template.jinja (a directory)",
                                  "chat_templates/tool.jinja (a dangling link)",
                                  "merges.txt (a special file)", "vocab.json (a dangling link)"}));
}

TEST(CollectAssets, takes_the_modules_that_sentence_transformers_lists) {
    const TemporaryDirectory hf;
    hf.put("modules.json", R"([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
        {"idx": 3, "name": "3", "path": "3_Normalize", "type": "x.Normalize"},
        {"idx": 4, "name": "4", "path": "4_Dense", "type": "x.Dense"},
        {"idx": 5, "name": "5", "path": "../2_Dense", "type": "x.Dense"},
        {"idx": 6, "name": "6", "path": "0_Transformer", "type": "x.Transformer"}, 7])");
    for (const char* name :
         {"config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json",
          "2_Dense/config.json", "2_Dense/model.safetensors",
          // These stay behind.
          "2_Dense/notes.md", "2_Dense/.git", "0_Transformer/model.safetensors",
          "9_Dense/model.safetensors"}) {
        hf.put(name);
    }
    const std::vector<Asset> found = collect_assets(hf.path());
    EXPECT_EQ(names_of(found), (std::vector<std::string>{
                                   "1_Pooling/config.json", "2_Dense/config.json",
                                   "2_Dense/model.safetensors", "config_sentence_transformers.json",
                                   "modules.json", "sentence_bert_config.json"}));
    EXPECT_EQ(weights_among(found), std::vector<std::string>{"2_Dense/model.safetensors"});
    EXPECT_EQ(lost_assets(hf.path()),
              (std::vector<std::string>{
                  "../2_Dense (which modules.json names, and no module has)",
                  "0_Transformer (where modules.json has the model that is written beside it)",
                  "4_Dense (which modules.json names)"}));
}

TEST(CollectAssets, takes_a_list_of_modules_that_is_none_as_a_file) {
    const TemporaryDirectory hf;
    hf.put("modules.json", "{");
    EXPECT_EQ(names_of(collect_assets(hf.path())), std::vector<std::string>{"modules.json"});
    EXPECT_EQ(lost_assets(hf.path()),
              std::vector<std::string>{"modules.json (no list of modules)"});
}

TEST(CollectAssets, names_a_directory_that_is_not_there) {
    EXPECT_EQ(test::error_text([] { collect_assets("/no/such/place"); }),
              "not_found: cannot read directory /no/such/place: No such file or directory (errno "
              "2)");
}

TEST(CollectAssets, refuses_a_file_too_large_for_a_tokenizer) {
    const TemporaryDirectory hf;
    const fs::path file = hf.put("tokenizer.json");
    fs::resize_file(file, (std::uintmax_t{1} << 30U) + 1);
    EXPECT_EQ(test::error_text([&] { collect_assets(hf.path()); }),
              "unsupported: " + file.string() +
                  " has 1.07 GB; a configuration or tokenizer file has at most 1.07 GB; give "
                  "another directory with --hf_config");
}

TEST(HasTokenizer, takes_the_files_that_loaders_take) {
    EXPECT_TRUE(has_tokenizer({"config.json", "vocab.json"}));
    EXPECT_TRUE(has_tokenizer({"qwen.tiktoken"}));
    EXPECT_TRUE(has_tokenizer({"huggingface/tokenizer.json"}));
    EXPECT_FALSE(has_tokenizer({"config.json", "tokenizer_config.json"}));
}

TEST(WriteAssets, copies_content_and_writes_texts) {
    const TemporaryDirectory hf;
    const TemporaryDirectory out;
    const std::string large(3'000'000, 'q');  // more than one buffer
    hf.put("blobs/abc", large);
    fs::create_symlink(hf.path() / "blobs/abc", hf.path() / "tokenizer.json");
    hf.put("chat_templates/tool.jinja", "{{ x }}");
    hf.put("vocab.txt", "");
    std::vector<Asset> assets = collect_assets(hf.path());
    assets.push_back({"config.json", {}, "{}\n"});
    write_assets(assets, out.path(), true);
    EXPECT_EQ(content_of(out.path() / "tokenizer.json"), large);
    EXPECT_FALSE(fs::is_symlink(out.path() / "tokenizer.json"));
    EXPECT_EQ(content_of(out.path() / "chat_templates/tool.jinja"), "{{ x }}");
    EXPECT_EQ(content_of(out.path() / "vocab.txt"), "");
    EXPECT_EQ(content_of(out.path() / "config.json"), "{}\n");
}

TEST(WriteAssets, refuses_a_file_that_is_no_longer_what_was_read) {
    // One that is kept in memory and one that stays open.
    for (const std::size_t size : {std::size_t{10}, std::size_t{100'000}}) {
        const TemporaryDirectory hf;
        const TemporaryDirectory out;
        const fs::path file = hf.put("tokenizer.json", std::string(size, 'a'));
        const fs::path secret = hf.put("secret", std::string(size, 's'));
        const auto answer = [&](const auto& change) {
            const std::vector<Asset> assets = collect_assets(hf.path());
            EXPECT_EQ(assets.at(0).text.has_value(), size == 10);
            change();
            return test::error_text([&] { write_assets(assets, out.path(), false); });
        };
        const std::string begin = "io: " + file.string() + " was changed since this run read it (";
        const auto expect = [&](const std::string& said, const std::string& why) {
            EXPECT_EQ(said.rfind(begin + why + ")", 0), 0U) << said;
            EXPECT_EQ(content_of(out.path() / "tokenizer.json"), "absent");
        };
        // The same bytes and time in another file.
        expect(answer([&] {
                   fs::copy_file(file, hf.path() / "copy");
                   fs::last_write_time(hf.path() / "copy", fs::last_write_time(file));
                   fs::rename(hf.path() / "copy", file);
               }),
               "another file has its name");
        // Other bytes, and the time set back.
        expect(answer([&] {
                   const auto time = fs::last_write_time(file);
                   hf.put("tokenizer.json", std::string(size, 'b'));
                   fs::last_write_time(file, time);
               }),
               "its change time changed");
        expect(answer([&] {
                   fs::remove(file);
                   fs::create_symlink(secret, file);
               }),
               "another file has its name");
        expect(answer([&] { fs::remove(file); }), "it is gone");
    }
}

TEST(CollectAssets, opens_files_as_it_is_told) {
    const TemporaryDirectory hf;
    hf.put("tokenizer.json");
    EXPECT_EQ(test::error_text([&] {
                  collect_assets(hf.path(), [](const fs::path& file) -> io::InputFile {
                      throw Error(ErrorCode::corrupt, file.filename().string());
                  });
              }),
              "corrupt: tokenizer.json");
}

}  // namespace
}  // namespace shardweld::publish
