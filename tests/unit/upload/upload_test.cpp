// What is checked before anything is uploaded: names, directories, tokens.
#include "upload/upload.hpp"

#include <map>

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::upload {
namespace {

using test::error_text;

TEST(CheckRepository, takes_the_hub_s_names_only) {
    for (const char* name : {"me/model", "My-Org/a_b.c-1", "0/1"}) {
        EXPECT_EQ(error_text([&] { check_repository(name); }), "no error") << name;
    }
    for (const char* name :
         {"", "model", "a/b/c", "/model", "me/", "-me/model", "me/model.", "me/mo del", "me/a--b",
          "me/a..b", "me/x.git", "me/\xc3\xa4", "https://huggingface.co/me/model"}) {
        EXPECT_EQ(error_text([&] { check_repository(name); }).rfind("usage: --hf_upload_path ", 0),
                  0U)
            << name;
    }
    EXPECT_NE(error_text([] { check_repository("me/" + std::string(97, 'x')); }), "no error");
}

class CheckModel : public ::testing::Test {
  protected:
    CheckModel() {
        here_.put("config.json", "{}");
        here_.put("model-00001-of-00002.safetensors");
        here_.put("model-00002-of-00002.safetensors");
        here_.put("model.safetensors.index.json",
                  R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                                     "b": "model-00002-of-00002.safetensors"}})");
    }
    [[nodiscard]] std::string verdict() const {
        const std::string text = error_text([&] { check_model(here_.path()); });
        const std::string begin =
            "not_found: " + here_.path().string() + " is not a finished model: ";
        return text.rfind(begin, 0) == 0 ? text.substr(begin.size(), text.find(';') - begin.size())
                                         : text;
    }
    void remove(const std::string& name) const { std::filesystem::remove(here_.path() / name); }
    test::TemporaryDirectory here_;
};

TEST_F(CheckModel, takes_a_whole_model) {
    EXPECT_EQ(verdict(), "no error");
}

TEST_F(CheckModel, takes_an_adapter) {
    const test::TemporaryDirectory adapter;
    adapter.put("lora_adapter/adapter_config.json", "{}");
    adapter.put("lora_adapter/adapter_model.safetensors");
    EXPECT_EQ(error_text([&] { check_model(adapter.path()); }), "no error");
    EXPECT_EQ(error_text([&] { check_model(adapter.path() / "lora_adapter"); }), "no error");
}

TEST_F(CheckModel, refuses_links_that_lead_out_and_dot_files) {
    const test::TemporaryDirectory elsewhere;
    const std::filesystem::path secret = elsewhere.put("secret");
    const auto refusal = [&](const std::string& name, const auto& make) {
        const std::filesystem::path path = here_.path() / name;
        make(path);
        const std::string text = error_text([&] { check_model(here_.path()); });
        std::filesystem::remove_all(path);
        const std::string begin = "corrupt: " + path.string() + " ";
        return text.rfind(begin, 0) == 0
                   ? text.substr(begin.size(), text.find(':', 10) - begin.size())
                   : text;
    };
    const auto link_to = [](const std::filesystem::path& to) {
        return [to](const std::filesystem::path& at) { std::filesystem::create_symlink(to, at); };
    };
    EXPECT_EQ(refusal("notes.txt", link_to(secret)),
              "leads out of the model's directory, to " + secret.string());
    EXPECT_EQ(refusal("tokenizer", link_to(elsewhere.path())),
              "leads out of the model's directory, to " + elsewhere.path().string());
    EXPECT_EQ(refusal("gone", link_to("nowhere")), "is a dangling link");
    for (const char* name : {".env", ".cache/x", ".ssh/id", "sub/.netrc"}) {
        here_.put(name);
        EXPECT_NE(verdict().find("begins with a dot"), std::string::npos) << name;
        std::filesystem::remove_all(here_.path() / *std::filesystem::path(name).begin());
    }
    here_.put(".gitattributes");
    here_.put(".git/config");
    here_.put(".cache/huggingface/download/x.lock");
    std::filesystem::create_symlink("config.json", here_.path() / "alias.json");
    EXPECT_EQ(verdict(), "no error");
}

TEST_F(CheckModel, refuses_what_lacks_a_part) {
    remove("model-00002-of-00002.safetensors");
    EXPECT_EQ(
        verdict(),
        "model.safetensors.index.json names model-00002-of-00002.safetensors, which is missing "
        "or empty");
    here_.put("model-00002-of-00002.safetensors", "");
    EXPECT_EQ(verdict(), "model-00002-of-00002.safetensors is empty or dangling");
    remove("config.json");
    remove("model-00002-of-00002.safetensors");
    EXPECT_EQ(verdict(), "it has no config.json");
    here_.put("config.json", "{}");
    remove("model-00001-of-00002.safetensors");
    EXPECT_EQ(verdict(), "it has no weights (*.safetensors)");
}

TEST_F(CheckModel, refuses_a_damaged_index) {
    for (const char* text : {"", "{", "[]", "{}", R"({"weight_map": 1})"}) {
        here_.put("model.safetensors.index.json", text);
        EXPECT_EQ(verdict(),
                  "model.safetensors.index.json is not a JSON object with a weight_map of tensors")
            << text;
    }
    here_.put("model.safetensors.index.json", R"({"weight_map": {"a": 1}})");
    EXPECT_EQ(verdict(), "model.safetensors.index.json gives the tensor a no file name");
    for (const std::string outside : {"/etc/hostname", "../../etc/hostname", "a/../../x"}) {
        here_.put("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"" + outside + "\"}}");
        EXPECT_EQ(verdict(), "model.safetensors.index.json names the file " + outside +
                                 ", which leaves the directory");
    }
}

TEST_F(CheckModel, refuses_outputs_that_are_still_written) {
    here_.put(".shardweld-partial/x");
    EXPECT_EQ(verdict(), "it holds .shardweld-partial, left by a run that has not finished");
    const auto partial = here_.path() / ".out.shardweld-partial";
    here_.put(".out.shardweld-partial/config.json", "{}");
    EXPECT_NE(error_text([&] { check_model(partial / ""); }).find("it is the partial output"),
              std::string::npos);
}

TEST(CheckModelPath, refuses_what_is_no_directory) {
    EXPECT_EQ(error_text([] { check_model("/nonexistent/model"); }),
              "not_found: /nonexistent/model is not a readable directory; check the path");
}

Tokens tokens_in(const std::map<std::string, std::string>& variables) {
    return find_tokens([&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

TEST(FindTokens, looks_where_the_client_looks) {
    const test::TemporaryDirectory home;
    const std::string root = home.path().string();
    EXPECT_FALSE(tokens_in({{"HOME", root}}).is_present);
    EXPECT_EQ(tokens_in({{"HOME", root}}).file, home.path() / ".cache/huggingface/token");
    EXPECT_FALSE(tokens_in({{"HOME", root}, {"HF_TOKEN", " \n"}}).is_present);
    EXPECT_EQ(tokens_in({{"HOME", root}, {"HF_TOKEN", " abcdef\n"}}).values,
              std::vector<std::string>{"abcdef"});
    EXPECT_TRUE(tokens_in({{"HOME", root}, {"HUGGING_FACE_HUB_TOKEN", "abcdef"}}).is_present);
    home.put("mine/token", "in_hf_home\n");
    EXPECT_EQ(tokens_in({{"HOME", root}, {"HF_HOME", "~/mine"}}).values,
              std::vector<std::string>{"in_hf_home"});
    EXPECT_EQ(tokens_in({{"HOME", root}, {"XDG_CACHE_HOME", "/x"}}).file, "/x/huggingface/token");
    EXPECT_EQ(tokens_in({{"HF_HOME", "/x"}, {"HF_TOKEN_PATH", root + "/mine/token"}}).values,
              std::vector<std::string>{"in_hf_home"});
    // Too short to be hidden without making messages unreadable.
    EXPECT_EQ(tokens_in({{"HOME", root}, {"HF_TOKEN", "abc"}}).values, std::vector<std::string>{});
    EXPECT_TRUE(tokens_in({{"HOME", root}, {"HF_TOKEN", "abc"}}).is_present);
}

TEST(RetryCommand, is_one_that_a_shell_understands) {
    EXPECT_EQ(retry_command({"out", "me/model", false, {}}),
              "shardweld upload out --hf_upload_path me/model");
    EXPECT_EQ(
        retry_command({"it's here", "me/model", true, fs::path("/x/hf")}),
        "shardweld upload 'it'\\''s here' --hf_upload_path me/model --private --hf_cli /x/hf");
}

}  // namespace
}  // namespace shardweld::upload
