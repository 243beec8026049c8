#include "formats/closed_world.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/shared/directory_listing.hpp"

#include "safetensors_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using test::bytes_entry;
using test::safetensors;

const std::string kModel = safetensors("{" + bytes_entry("a", 0, 4) + "}", 4);

std::vector<std::string> paths_of(const std::vector<Neighbour>& neighbours) {
    std::vector<std::string> paths;
    for (const Neighbour& neighbour : neighbours) {
        paths.push_back(neighbour.path);
    }
    return paths;
}

Location locate_model(const fs::path& given) {
    JobInput request;
    request.directory = given;
    request.backend = "hf";
    return locate(request);
}

/// "pattern: reason (count, bytes)" of each row.
std::vector<std::string> rows_of(const catalogue::Catalogue& catalogue) {
    std::vector<std::string> rows;
    for (const auto& row : catalogue.ignored) {
        rows.push_back(row.pattern + ": " + row.reason + " (" + std::to_string(row.count) + ", " +
                       std::to_string(row.bytes) + ")");
    }
    return rows;
}

TEST(ClosedWorld, lists_what_is_beside_and_above) {
    const Scratch scratch;
    scratch.file("top/notes.txt", "x");
    scratch.file("top/weights.pt", "x");
    scratch.file("top/elsewhere/weights.pt", "x");
    scratch.file("top/checkpoint-7/model.safetensors", kModel);
    scratch.file("top/checkpoint-7/config.json", "{}");
    scratch.file("top/checkpoint-7/old/weights.bin", "123");
    scratch.file("top/checkpoint-7/wandb/run/weights.bin", "123");
    scratch.file("top/checkpoint-8/model.safetensors", kModel);
    Location location = locate_model(scratch.path() / "top" / "checkpoint-7");
    EXPECT_EQ(paths_of(location.neighbours),
              (std::vector<std::string>{"config.json", "old/weights.bin", "wandb/"}));
    EXPECT_EQ(location.neighbours[1].bytes, 3U);
    location.neighbours = look_around(scratch.path() / "top", location);
    EXPECT_EQ(
        paths_of(location.neighbours),
        (std::vector<std::string>{"../checkpoint-8/", "../elsewhere/", "../notes.txt",
                                  "../weights.pt", "config.json", "old/weights.bin", "wandb/"}));
    EXPECT_EQ(
        rows_of(read_catalogue(location)),
        (std::vector<std::string>{
            "*.json: not weights (1, 2)", "../weights.pt: no file that is read names it (1, 1)",
            "iterations: another iteration (1, 0)",
            "old/weights.bin: no file that is read names it (1, 3)", "wandb/: logs (1, 0)"}));
}

TEST(ClosedWorld, takes_the_end_of_a_link_for_what_the_link_is) {
    const Scratch scratch;
    scratch.file("disk/model.safetensors", kModel);
    fs::create_symlink("disk/model.safetensors", scratch.path() / "model.safetensors");
    EXPECT_TRUE(read_catalogue(locate_model(scratch.path())).warnings.empty());
}

TEST(ClosedWorld, warns_of_whatever_could_hold_weights) {
    for (const char* file :
         {"model-00003-of-00003.safetensors", "a.pt", "a.pth", "a.BIN", "a.ckpt", "__0_0.distcp",
          "a.gguf", "a.h5", "sub/a.pt", "sub/deeper/x/.zarray", "model.safetensors.bak",
          "model.safetensors~", "adapter_model.safetensors", "a/b/c/d/e/f"}) {
        const Scratch scratch;
        scratch.file("model.safetensors", kModel);
        scratch.file(file, "12");
        const bool is_second = std::string(file).starts_with("model-");
        if (is_second) {  // left out by an index
            scratch.file("model.safetensors.index.json",
                         R"({"weight_map": {"a": "model.safetensors"}})");
        }
        const auto catalogue = read_catalogue(locate_model(scratch.path()));
        ASSERT_TRUE(catalogue.warnings.contains("weights_left_aside")) << file;
        const std::string& text = catalogue.warnings.at("weights_left_aside");
        const std::string name = std::string(file) == "a/b/c/d/e/f" ? "a/b/c/d/e/" : file;
        EXPECT_NE(text.find(name), std::string::npos) << text;
    }
}

TEST(ClosedWorld, passes_over_what_holds_none) {
    const Scratch scratch;
    scratch.file("model.safetensors", kModel);
    for (const char* file : {"config.json",
                             "tokenizer.model",
                             "merges.txt",
                             "README.md",
                             "modeling.py",
                             "LICENSE",
                             "optimizer.pt",
                             "optimizer_1.bin",
                             "scheduler.pt",
                             "rng_state.pth",
                             "rng_state_3.pth",
                             "random_states_0.pkl",
                             "training_args.bin",
                             "trainer_state.json",
                             "data.pt",
                             "optim_world_size_4_rank_0.pt",
                             "extra_state_world_size_4_rank_0.pt",
                             "events.out.tfevents.1.host",
                             "runs/x/events.out.tfevents.2",
                             "huggingface/model.bin",
                             "lora_adapter/adapter_model.safetensors",
                             "optimizer_0/__0_0.distcp",
                             "train.log",
                             "mp_rank_00/distrib_optim.pt",
                             "model.safetensors.sha256",
                             "sharded/shard-1.safetensors",
                             "pytorch_model.bin.index.json",
                             "dataloader_state.pt"}) {
        scratch.file(file, "12");
    }
    scratch.file("empty.pt");
    const auto catalogue = read_catalogue(locate_model(scratch.path()));
    EXPECT_TRUE(catalogue.warnings.empty()) << catalogue.warnings.begin()->second;
    EXPECT_GT(catalogue.ignored.size(), 10U);
}

TEST(ClosedWorld, wants_whole_sets_of_numbered_files) {
    using Names = std::vector<std::string>;
    for (const Names& names :
         {Names{"model.safetensors", "a-b-of-c.bin", "-of-3.x"},
          Names{"m-00001-of-00002.x", "m-00002-of-00002.x"}, Names{"m-0-of-2.x", "m-1-of-2.x"},
          Names{"m-1-of-1.x", "m-00001-of-00001.y"},
          Names{"m-9-of-10.x", "m-10-of-10.x", "m-1-of-10.x", "m-2-of-10.x", "m-3-of-10.x",
                "m-4-of-10.x", "m-5-of-10.x", "m-6-of-10.x", "m-7-of-10.x", "m-8-of-10.x"}}) {
        EXPECT_NO_THROW(require_whole_sets(names)) << names.front();
    }
    expect_error(ErrorCode::not_found, "m-00003-of-00003.x", [] {
        require_whole_sets({"m-00001-of-00003.x", "m-00002-of-00003.x"});
    });
    expect_error(ErrorCode::not_found, "m-09-of-12.x", [] {
        require_whole_sets({"m-01-of-12.x", "m-02-of-12.x", "m-03-of-12.x", "m-04-of-12.x",
                            "m-05-of-12.x", "m-06-of-12.x", "m-07-of-12.x", "m-08-of-12.x",
                            "m-10-of-12.x", "m-11-of-12.x", "m-12-of-12.x"});
    });
    expect_error(ErrorCode::not_found, "of 999999999999 files of one set 1 are there",
                 [] { require_whole_sets({"m-1-of-999999999999.x"}); });
}

}  // namespace
}  // namespace shardweld::formats
