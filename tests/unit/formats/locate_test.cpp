#include <algorithm>
#include <array>

#include <unistd.h>

#include "core/codec.hpp"
#include "formats/format.hpp"
#include "formats/recognise.hpp"

#include "scratch.hpp"

namespace shardweld::formats {
namespace {

Location at(const fs::path& directory, const std::string& role = "",
            std::optional<Index> iteration = std::nullopt) {
    InputRequest request;
    request.directory = directory;
    request.role = role;
    request.iteration = iteration;
    return locate(request);
}

TEST(Locate, finds_a_megatron_checkpoint_from_every_level) {
    const fs::path root = fixture("llama-tp4-legacy-bf16");
    for (const fs::path& directory :
         {root, root / "source", root / "source" / "", root / "source" / "iter_0000010",
          root / "expected" / ".." / "source"}) {
        const Location found = at(directory);
        EXPECT_EQ(found.format, "megatron legacy") << directory;
        EXPECT_EQ(found.directory, root / "source" / "iter_0000010");
        EXPECT_EQ(found.shard_files,
                  (std::vector<std::string>{
                      "mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt",
                      "mp_rank_02/model_optim_rng.pt", "mp_rank_03/model_optim_rng.pt"}));
        EXPECT_EQ(found.facts, (std::map<std::string, Index>{{"iteration", 10}}));
        EXPECT_FALSE(found.hf_directory);
        EXPECT_FALSE(found.claims_file);
        EXPECT_EQ(found.notes, std::vector<std::string>{});
    }
}

TEST(Locate, follows_dots_behind_a_link_as_the_system_does) {
    const Scratch scratch;
    const fs::path top = fs::canonical(scratch.path());
    const auto copy = [&](const char* name, const fs::path& to) {
        fs::create_directories(to.parent_path());
        fs::copy(fixture(name) / "source", to, fs::copy_options::recursive);
    };
    copy("llama-tp4-legacy-bf16", top / "far/run/ckpt");
    copy("llama-pp12-legacy-bf16", top / "ckpt");
    fs::create_directory(top / "far/run/log");
    fs::create_directory_symlink("far/run/log", top / "link");
    EXPECT_EQ(at(top / "link/../ckpt").directory, top / "far/run/ckpt/iter_0000010");
    EXPECT_EQ(at(top / "far/../ckpt/./").directory, top / "ckpt/iter_0000010");
    EXPECT_EQ(at(top / "link/../../run/ckpt").directory, top / "far/run/ckpt/iter_0000010");
}

TEST(Locate, refuses_options_of_other_formats) {
    InputRequest request;
    request.directory = fixture("llama-tp4-legacy-bf16");
    request.mesh.shape = {4};
    expect_error(ErrorCode::usage, "--mesh_dim_names and --mesh_shape are about FSDP",
                 [&] { (void)locate(request); });
}

TEST(Locate, finds_verl_version_2_from_every_level) {
    const fs::path root = fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source";
    const fs::path actor = root / "global_step_10" / "actor";
    for (const fs::path& directory :
         {root, root / "global_step_10", actor, actor / "model", actor / "model" / "dist_ckpt"}) {
        const Location found = at(directory, "actor", 10);
        EXPECT_EQ(found.format, "megatron torch_dist") << directory;
        EXPECT_EQ(found.directory, actor / "model" / "dist_ckpt");
        EXPECT_EQ(found.shard_files.size(), 8U);
        EXPECT_EQ(found.hf_directory, actor / "model" / "huggingface");
        EXPECT_EQ(found.claims_file, actor / "transformer_config.json");
        EXPECT_EQ(found.facts, (std::map<std::string, Index>{{"iteration", 10}}));
        std::vector<std::string> notes;
        const auto took = [&](const fs::path& what) {
            notes.push_back("took " + what.string() + ", which lies beside " + directory.string() +
                            " and belongs to it");
        };
        if (directory.filename() == "dist_ckpt") {
            took(actor / "model" / "huggingface");
        }
        if (directory.parent_path() == actor || directory.filename() == "dist_ckpt") {
            took(actor / "transformer_config.json");
        }
        EXPECT_EQ(found.notes, notes);
    }
}

TEST(Locate, finds_verl_version_1) {
    const fs::path critic =
        fixture("verl-value-llama-tp2-torchdist-bf16") / "source" / "global_step_10" / "critic";
    for (const fs::path& directory :
         {critic.parent_path().parent_path(), critic, critic / "dist_ckpt"}) {
        const Location found = at(directory);
        EXPECT_EQ(found.directory, critic / "dist_ckpt");
        EXPECT_EQ(found.hf_directory, critic / "huggingface");
        EXPECT_EQ(found.claims_file, critic / "transformer_config.json");
    }
}

TEST(Locate, looks_for_a_config_only_in_what_was_given_and_what_belongs_to_it) {
    const Scratch scratch;
    const fs::path critic =
        fixture("verl-value-llama-tp2-torchdist-bf16") / "source" / "global_step_10" / "critic";
    scratch.copy(critic / "dist_ckpt", "run/step/dist_ckpt");
    scratch.file("run/huggingface/config.json", "{}");
    const fs::path run = scratch.path() / "run";
    EXPECT_EQ(at(run / "step" / "dist_ckpt").hf_directory, std::nullopt) << "nobody named run/";
    EXPECT_EQ(at(run / "step").hf_directory, std::nullopt);
    EXPECT_EQ(at(run).hf_directory, run / "huggingface");
    // A name of no layout says nothing of the directory above.
    fs::rename(run / "step" / "dist_ckpt", run / "shards");
    EXPECT_EQ(at(run / "shards").hf_directory, std::nullopt);
    EXPECT_EQ(at(run / "shards").notes, std::vector<std::string>{});
    fs::rename(run / "shards", run / "dist_ckpt");
    EXPECT_EQ(at(run / "dist_ckpt").hf_directory, run / "huggingface");
    if (::geteuid() != 0) {
        return;  // only root can give files away
    }
    const auto owned_by = [&](uid_t user, const fs::path& path) {
        EXPECT_EQ(::chown(path.c_str(), user, static_cast<gid_t>(-1)), 0);
        return at(run / "dist_ckpt").hf_directory.has_value();
    };
    EXPECT_FALSE(owned_by(65534, run / "huggingface"));
    EXPECT_EQ(at(run / "dist_ckpt").notes,
              std::vector<std::string>{(run / "huggingface").string() +
                                       " is not used: " + (run / "huggingface").string() +
                                       " lies outside " + (run / "dist_ckpt").string() +
                                       " and belongs to user 65534"});
    EXPECT_FALSE(owned_by(0, run / "huggingface") &&
                 owned_by(65534, run / "huggingface" / "config.json"));
    EXPECT_TRUE(owned_by(65534, run / "dist_ckpt")) << "whose the checkpoint is";
}

TEST(Locate, takes_the_model_of_a_version_2_save_with_optimizer_and_extra) {
    const Scratch scratch;
    scratch.copy(fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source");
    const fs::path actor = scratch.path() / "global_step_10" / "actor";
    for (const char* part : {"optimizer", "extra"}) {
        scratch.copy(actor / "model" / "dist_ckpt",
                     std::string("global_step_10/actor/") + part + "/dist_ckpt");
    }
    EXPECT_EQ(at(scratch.path()).directory, actor / "model" / "dist_ckpt");
    fs::remove(actor / "ckpt_contents.json");
    fs::create_directories(actor / "adapter_checkpoint");
    const Location found = at(scratch.path());
    EXPECT_EQ(found.directory, actor / "model" / "dist_ckpt");
    EXPECT_EQ(found.notes,
              (std::vector<std::string>{
                  "adapters are stored separately in " + (actor / "adapter_checkpoint").string() +
                      " and are not merged",
                  (actor / "ckpt_contents.json").string() +
                      " is missing: it is written last, so the save may be incomplete"}));
}

TEST(Locate, asks_for_a_role_when_a_step_holds_two) {
    const Scratch scratch;
    for (const char* role : {"actor", "critic"}) {
        scratch.copy(
            fixture("verl-value-llama-tp2-torchdist-bf16") / "source" / "global_step_10" / "critic",
            std::string("global_step_3/") + role);
    }
    expect_error(ErrorCode::usage,
                 "holds actor and critic; choose one with --role actor or --role critic",
                 [&] { at(scratch.path()); });
    const fs::path step = scratch.path() / "global_step_3";
    EXPECT_EQ(at(scratch.path(), "actor").directory, step / "actor" / "dist_ckpt");
    EXPECT_EQ(at(scratch.path(), "critic").directory, step / "critic" / "dist_ckpt");
    expect_error(ErrorCode::usage, "belongs to actor", [&] { at(step / "actor", "critic"); });
    expect_error(ErrorCode::usage, "--role ref is not known; give actor or critic",
                 [&] { at(step, "ref"); });
    fs::remove_all(step / "critic");
    expect_error(ErrorCode::not_found, "--role critic is not in", [&] { at(step, "critic"); });
    EXPECT_EQ(at(step).directory, step / "actor" / "dist_ckpt");
}

TEST(Locate, refuses_a_role_or_iteration_that_contradicts_the_directory) {
    const fs::path root = fixture("llama-tp4-legacy-bf16") / "source";
    expect_error(ErrorCode::usage, "belongs to no role", [&] { at(root, "actor"); });
    expect_error(ErrorCode::usage, "is iteration 10", [&] { at(root / "iter_0000010", "", 11); });
    const Scratch scratch;
    scratch.copy(root / "iter_0000010", "weights");
    expect_error(ErrorCode::usage, "does not say which iteration it is",
                 [&] { at(scratch.path() / "weights", "", 10); });
    EXPECT_EQ(at(scratch.path() / "weights").facts, (std::map<std::string, Index>{}));
}

// verl's layout 2 with PEFT: the adapter's shards, and beside them its base, settings and config.
TEST(Locate, takes_an_adapter_from_where_the_manifest_says) {
    const Scratch scratch;
    scratch.copy(fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source" / "global_step_10" /
                     "actor" / "model" / "dist_ckpt",
                 "actor/adapters/dist_ckpt");
    scratch.file("actor/model/hf/config.json", "{}");
    scratch.file("actor/model/hf/adapter/adapter_config.json", "{}");
    scratch.file("actor/ckpt_contents.json", R"({"contents": {
        "model": {"path": "model/hf", "peft_adapter_path": "model/hf/adapter"},
        "hf_config": {"path": "model/hf"},
        "peft_adapters": {"path": "adapters/dist_ckpt"}}})");
    const fs::path actor = scratch.path() / "actor";
    const Location found = at(scratch.path());
    EXPECT_EQ(found.directory, actor / "adapters" / "dist_ckpt");
    EXPECT_EQ(found.adapter_directory, actor / "model/hf/adapter");
    EXPECT_EQ(found.hf_directory, actor / "model/hf");
    scratch.file("actor/model/hf/model.safetensors");
    const auto notes = at(scratch.path()).notes;
    EXPECT_TRUE(std::ranges::any_of(notes, [&](const std::string& note) {
        return note.find("--base " + (actor / "model/hf").string()) != std::string::npos;
    }));
    scratch.file("actor/ckpt_contents.json", R"({"contents": {
        "model": {"path": "model/hf"}, "peft_adapters": {"path": "../elsewhere"}}})");
    expect_error(ErrorCode::corrupt, "its entry peft_adapters as ../elsewhere, which leaves",
                 [&] { at(scratch.path()); });
}

TEST(Locate, takes_an_adapter_that_peft_saved_where_nothing_else_is) {
    const Scratch scratch;
    for (const char* step : {"run/checkpoint-9", "run/checkpoint-10"}) {
        scratch.file(std::string(step) + "/adapter_model.safetensors");
        scratch.file(std::string(step) + "/adapter_config.json", "{}");
        scratch.file(std::string(step) + "/optimizer.pt");
    }
    const Location found = at(scratch.path() / "run");
    EXPECT_EQ(found.format, "peft");
    EXPECT_EQ(found.directory, scratch.path() / "run/checkpoint-10");
    EXPECT_EQ(found.adapter_directory, found.directory);
    EXPECT_TRUE(found.warnings.empty());
    scratch.file("run/checkpoint-10/adapter_model.bin");
    EXPECT_TRUE(at(scratch.path() / "run").warnings.contains("second_adapter"));
    // A model is a model, whatever lies beside it.
    scratch.file("run/checkpoint-10/model.safetensors");
    expect_error(ErrorCode::not_found, "is a HuggingFace model already",
                 [&] { at(scratch.path() / "run/checkpoint-10"); });
}

TEST(Locate, keeps_contents_inside_the_checkpoint) {
    const Scratch scratch;
    scratch.copy(fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source" / "global_step_10" /
                     "actor" / "model" / "dist_ckpt",
                 "elsewhere");
    const auto with = [&](const std::string& text) {
        scratch.file("actor/ckpt_contents.json", text);
        return error_of([&] { at(scratch.path() / "actor"); });
    };
    for (const std::string path : {"../elsewhere", "/etc", "a/../../elsewhere", ""}) {
        const auto [code, text] = with(R"({"contents": {"model": {"path": ")" + path + R"("}}})");
        EXPECT_EQ(code, ErrorCode::corrupt) << path;
        EXPECT_NE(text.find("which leaves the checkpoint"), std::string::npos) << text;
    }
    EXPECT_EQ(with("[1").first, ErrorCode::corrupt);
    EXPECT_EQ(with("{}").first, ErrorCode::corrupt);
    EXPECT_EQ(with(R"({"contents": {"model": 3}})").first, ErrorCode::corrupt);
    EXPECT_EQ(with(std::string(100000, '[')).first, ErrorCode::corrupt);
    EXPECT_EQ(with(R"({"contents": {}})").first, ErrorCode::not_found);
    EXPECT_EQ(with(R"({"contents": {"model": {"path": "gone"}}})").first, ErrorCode::not_found);
}

TEST(Locate, says_that_there_is_nothing_to_merge) {
    const Scratch scratch;
    scratch.file("actor/huggingface/config.json", "{}");
    scratch.file("actor/huggingface/model.safetensors");
    expect_error(ErrorCode::not_found,
                 "the HuggingFace model is complete in " +
                     (scratch.path() / "actor" / "huggingface").string(),
                 [&] { at(scratch.path()); });
    expect_error(ErrorCode::not_found, "is a HuggingFace model already",
                 [&] { at(scratch.path() / "actor" / "huggingface"); });
}

TEST(Locate, names_layouts_it_does_not_read) {
    for (const auto& [files, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"adapter_config.json"}, "a PEFT adapter without weights"},
             {{"model-Q4_K_M.gguf"}, "a GGUF model"},
             {{"model.nemo"}, "a NeMo archive"},
             {{"_CHECKPOINT_METADATA"}, "an Orbax checkpoint"},
             {{"_METADATA", "d/a2a8e649", "manifest.ocdbt"}, "an Orbax checkpoint"},
             {{"manifest.ocdbt", "d/1a9f3c0a"}, "an OCDBT store of TensorStore"},
             {{"0.0", ".zarray"}, "an array of TensorStore or zarr"},
             {{"zarr.json", "c/0/0"}, "an array of TensorStore or zarr"},
             {{"0_0.distcp", "1_0.distcp", "0.metadata"}, "a distributed checkpoint of Paddle"},
             {{"0_0.distcp"}, "a distributed checkpoint of Paddle"},
             {{"model_state.pdparams", "model_config.json"}, "a checkpoint of Paddle"},
             {{"flax_model.msgpack", "config.json"}, "a Flax model"},
             {{"checkpoint_5"}, "a Flax model"},
             {{"model.ckpt.data-00000-of-00001"}, "a TensorFlow checkpoint"},
             {{"tf_model.h5", "config.json"}, "a TensorFlow checkpoint"},
             {{"m.weights.h5"}, "Keras's weights"},
             {{"model.tensors", "config.json"}, "a model of tensorizer"},
             {{".snapshot_metadata", "batched/533fef71"}, "a snapshot of torchsnapshot"},
             {{"metadata.pkl", "model_0.pt", "step_0.pt"}, "a checkpoint of torch_checkpointing"},
             {{"meta.json", "weight.memmap"}, "a TensorDict in memory maps"},
             {{"weights.npz", "config.json"}, "MLX's weights"},
             {{"adapters.safetensors", "adapter_config.json"}, "an adapter of MLX"},
             {{"model-rank-0-part-0.safetensors", "config.json"}, "vLLM's sharded state"},
             {{"rank0.safetensors", "config.json"}, "a checkpoint of TensorRT-LLM"},
             {{"step-10.tar.gz"}, "an archive that is still packed"},
             {{"consolidated.00.pth", "params.json"}, "a release of Llama in Meta's own layout"},
             {{"last.ckpt"}, "a Lightning checkpoint"},
             {{"model.onnx"}, "an ONNX model"},
             {{"pytorch_optim-00001.bin"}, "the optimizer of a ColossalAI checkpoint"},
             {{"config.json", "tokenizer_config.json"}, "a HuggingFace model without weights"}}) {
        for (const char* above : {"save", "save/part"}) {
            const Scratch scratch;
            for (const std::string& file : files) {
                scratch.file(above + ("/" + file));
            }
            expect_error(ErrorCode::unsupported, (scratch.path() / above).string() + " is " + text,
                         [&] { at(scratch.path() / fs::path(above).parent_path()); });
        }
    }
    const Scratch deep;
    deep.file("run/checkpoints/1000/items/_METADATA");
    expect_error(ErrorCode::unsupported, "1000/items is an Orbax checkpoint",
                 [&] { at(deep.path()); });
    const Scratch cut_short;
    cut_short.file("__0_0.distcp");
    expect_error(ErrorCode::not_found, "has .distcp files but no .metadata",
                 [&] { at(cut_short.path()); });
    const Scratch hdf5;
    hdf5.file("global_step_1/actor/model.h5");
    expect_error(ErrorCode::unsupported,
                 "looks like HDF5 files, which are read only when asked for; give --backend hdf5",
                 [&] { at(hdf5.path()); });
    const Scratch other;
    other.file("iter_0000001/metadata.json", R"({"sharded_backend": "tar"})");
    expect_error(ErrorCode::unsupported,
                 "sharded_backend \"tar\", which is not read; load and save it once with "
                 "--ckpt-format torch_dist; this build reads torch_dist, zarr",
                 [&] { at(other.path()); });
}

TEST(Locate, says_what_a_file_is_that_was_given_for_a_directory) {
    const std::string tar = std::string(257, '\0') + "ustar" + std::string(300, '\0');
    for (const auto& [name, content, text] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"step-10.tar", tar, "is a file: a tar archive"},
             {"model.nemo", tar, "is a file: a tar archive"},
             {"step-10.tgz", "\x1f\x8b 123", "is a file: packed with gzip"},
             {"step-10.zip", "PK\x03\x04 123", "is a file: a zip archive"},
             {"model.pt", "PK\x03\x04 123", "is a file: a file of torch.save"},
             {"model.gguf", "GGUF\x03", "is a file: a GGUF model"},
             {"model.tensors", "|TZR|\x01", "is a file: a model of tensorizer"},
             {"notes.txt", "hello", "is a file; give the checkpoint's directory"}}) {
        const Scratch scratch;
        scratch.file(name, content);
        expect_error(ErrorCode::usage, text, [&] { at(scratch.path() / name); });
    }
}

/// What is said when `directory` is asked for as one of another backend's.
std::string said_of(const fs::path& directory, const std::string& backend,
                    bool wants_model = false) {
    InputRequest request;
    request.directory = directory;
    request.backend = backend;
    request.wants_model = wants_model;
    return error_of([&] { locate(request); }).second;
}

TEST(Locate, says_which_backend_reads_a_directory) {
    const fs::path fsdp = fixture("../torch/fsdp2_w4_bf16_qwen2_tied") / "source";
    EXPECT_EQ(said_of(fsdp, "megatron"), fsdp.lexically_normal().string() +
                                             " is a verl FSDP checkpoint (world size 4); use "
                                             "--backend fsdp, or leave it out");
    EXPECT_EQ(said_of(fsdp, "hf", true),
              fsdp.lexically_normal().string() +
                  " is a verl FSDP checkpoint (world size 4); merge it first");
    const fs::path legacy = fixture("llama-tp4-legacy-bf16") / "source";
    EXPECT_EQ(said_of(legacy, "fsdp"),
              (legacy / "iter_0000010").string() +
                  " is a Megatron checkpoint (legacy, 4 rank files); use --backend megatron, or "
                  "leave it out");
    const fs::path dcp = fixture("../torch/dcp_w2_bf16_qwen2") / "source";
    EXPECT_EQ(said_of(dcp, "megatron"),
              dcp.lexically_normal().string() +
                  " is a torch DCP checkpoint; use --backend dcp, or leave it out");
    // torch_dist is DCP with more in it, and its common.pt a file of any name.
    const fs::path torch_dist =
        fixture("llama-tp2-optim-torchdist-bf16") / "source" / "iter_0000010";
    for (const char* backend : {"dcp", "colossalai", "fsdp"}) {
        EXPECT_EQ(said_of(torch_dist, backend),
                  torch_dist.string() +
                      " is a Megatron checkpoint (torch_dist); use --backend "
                      "megatron, or leave it out");
    }
    const Scratch model;
    model.file("model.safetensors");
    EXPECT_EQ(said_of(model.path(), "fsdp"),
              model.path().string() +
                  " is a HuggingFace model already; add --quantize, --dtype or "
                  "--max_shard_size to convert it");
}

TEST(Locate, refuses_a_directory_with_two_checkpoints) {
    const Scratch scratch;
    scratch.copy(fixture("../torch/fsdp2_w4_bf16_qwen2_tied") / "source");
    scratch.copy(fixture("../torch/dcp_w2_bf16_qwen2") / "source");
    expect_error(ErrorCode::usage,
                 "holds a verl FSDP checkpoint (world size 4) and a torch DCP checkpoint; choose "
                 "one with --backend fsdp or --backend dcp",
                 [&] { at(scratch.path()); });
    EXPECT_EQ(said_of(scratch.path(), "dcp"), "");
    const Scratch both;
    both.copy(fixture("llama-tp4-legacy-bf16") / "source" / "iter_0000010");
    both.copy(fixture("llama-tp2-optim-torchdist-bf16") / "source" / "iter_0000010");
    expect_error(ErrorCode::usage, "move one of them to a directory of its own",
                 [&] { at(both.path()); });
}

TEST(Locate, tells_how_to_get_a_model_of_the_hub) {
    EXPECT_EQ(said_of("Qwen/Qwen3-8B", "auto"),
              "Qwen/Qwen3-8B does not exist; if it is a model on the Hub, download it first: hf "
              "download Qwen/Qwen3-8B --local-dir Qwen3-8B");
    for (const char* path : {"gone", "/gone/model", "./gone/model", "gone/a/b", "gone/"}) {
        EXPECT_EQ(said_of(path, "auto"), std::string(path) + " does not exist; check the path");
    }
}

TEST(Recognise, refuses_what_is_still_to_be_merged) {
    const fs::path fsdp = fixture("../torch/fsdp2_w4_bf16_qwen2_tied") / "source";
    expect_error(ErrorCode::not_found,
                 "is a verl FSDP checkpoint (world size 4), no finished model; merge it first",
                 [&] { refuse_unmerged(fsdp); });
    const Scratch model;
    model.file("model.safetensors");
    refuse_unmerged(model.path());
    refuse_unmerged(model.path() / "gone");
}

TEST(Formats, list_their_backends_once) {
    EXPECT_EQ(backends(),
              (std::vector<std::string>{"megatron", "deepspeed", "fsdp", "bytecheckpoint", "dcp",
                                        "colossalai", "hf", "peft", "hdf5"}));
}

TEST(Locate, says_what_it_looked_for) {
    const Scratch scratch;
    expect_error(ErrorCode::not_found, "rank_*.pt", [&] { at(scratch.path()); });
    InputRequest model;
    model.directory = scratch.path();
    model.backend = "hf";
    expect_error(ErrorCode::not_found, "no HuggingFace model in",
                 [&] { static_cast<void>(locate(model)); });
    model.backend = "hdf5";
    expect_error(ErrorCode::not_found, "the directory that has *.h5, *.hdf5",
                 [&] { static_cast<void>(locate(model)); });
    scratch.file("some.txt");
    scratch.directory("dir");
    expect_error(ErrorCode::not_found, "which has dir, some.txt; point --local_dir at",
                 [&] { at(scratch.path()); });
    expect_error(ErrorCode::usage, "is a file", [&] { at(scratch.path() / "some.txt"); });
    expect_error(ErrorCode::not_found, "does not exist", [&] { at(scratch.path() / "gone"); });
}

TEST(Locate, reports_an_index_that_is_missing) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp2-optim-torchdist-bf16") / "source");
    const fs::path iteration = scratch.path() / "iter_0000010";
    fs::remove(iteration / ".metadata");
    expect_error(ErrorCode::not_found, "has metadata.json but no .metadata",
                 [&] { at(scratch.path()); });
    fs::remove(iteration / "metadata.json");
    expect_error(ErrorCode::not_found, "has .distcp files but no .metadata",
                 [&] { at(scratch.path()); });
}

TEST(Locate, takes_the_one_checkpoint_below_a_parent) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source", "a/checkpoints");
    scratch.directory("a/logs");
    EXPECT_EQ(at(scratch.path() / "a").directory,
              scratch.path() / "a" / "checkpoints" / "iter_0000010");
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source", "a/older");
    expect_error(ErrorCode::usage, "holds several checkpoints: checkpoints, older",
                 [&] { at(scratch.path() / "a"); });
}

TEST(Locate, names_checkpoints_further_down) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source", "project/run/checkpoints");
    scratch.directory("project/logs/more");
    const std::string found = (scratch.path() / "project" / "run" / "checkpoints").string();
    expect_error(ErrorCode::not_found,
                 "no checkpoint in " + scratch.path().string() +
                     ", which has project; give one of those below it, such as " + found,
                 [&] { at(scratch.path()); });
}

TEST(Locate, leaves_training_state_beside_the_model) {
    const fs::path save = fixture("../torch/dcp_w2_bf16_qwen2") / "source";
    const Scratch scratch;
    scratch.copy(save, "checkpoint-10/pytorch_model_fsdp_0");
    scratch.copy(save, "checkpoint-10/optimizer_0");
    const fs::path model = scratch.path() / "checkpoint-10" / "pytorch_model_fsdp_0";
    EXPECT_EQ(at(scratch.path() / "checkpoint-10").directory, model);
    EXPECT_EQ(at(scratch.path(), "", 10).directory, model);
    // Alone, a directory may be called anything.
    fs::remove_all(model);
    EXPECT_EQ(at(scratch.path() / "checkpoint-10").directory,
              scratch.path() / "checkpoint-10" / "optimizer_0");
    scratch.copy(save, "checkpoint-10/pytorch_model_fsdp_0");
    scratch.copy(save, "checkpoint-10/pytorch_model_fsdp_1");
    expect_error(ErrorCode::usage,
                 "holds several checkpoints: pytorch_model_fsdp_0, pytorch_model_fsdp_1; give one",
                 [&] { at(scratch.path() / "checkpoint-10"); });
}

TEST(Locate, says_which_older_save_is_whole) {
    const fs::path save = fixture("../torch/dcp_w2_bf16_qwen2") / "source";
    for (const std::string below : {"", "/pytorch_model_fsdp_0"}) {
        const Scratch scratch;
        for (const char* step : {"checkpoint-9", "checkpoint-10", "checkpoint-20"}) {
            scratch.copy(save, step + below);
        }
        fs::remove(scratch.path() / ("checkpoint-20" + below) / ".metadata");
        const std::string older = "take " + (scratch.path() / "checkpoint-10").string();
        const std::string interrupted =
            (scratch.path() / ("checkpoint-20" + below)).string() +
            " has .distcp files but no .metadata: the save was interrupted";
        expect_error(ErrorCode::not_found, interrupted, [&] { at(scratch.path()); });
        expect_error(ErrorCode::not_found, older + ", an older save that is whole: --iteration 10",
                     [&] { at(scratch.path()); });
        // Not by --iteration where that is what was given.
        const auto [code, text] = error_of([&] { at(scratch.path() / "checkpoint-20"); });
        EXPECT_TRUE(text.ends_with(older + ", an older save that is whole")) << text;
        // One that is damaged, too, is passed by.
        fs::remove(scratch.path() / ("checkpoint-10" + below) / "__0_0.distcp");
        expect_error(ErrorCode::not_found, "checkpoint-9, an older save that is whole",
                     [&] { at(scratch.path()); });
    }
}

TEST(Locate, finds_the_older_save_of_what_lies_in_a_step) {
    const Scratch scratch;
    for (const char* step : {"10", "20"}) {
        scratch.copy(fixture("../deepspeed/zero2_w2_tied") / "source/global_step2",
                     std::string("checkpoint-") + step + "/global_step" + step);
        scratch.file(std::string("checkpoint-") + step + "/latest",
                     std::string("global_step") + step);
    }
    fs::remove_all(scratch.path() / "checkpoint-20/global_step20");
    scratch.directory("checkpoint-20/global_step20");
    expect_error(ErrorCode::not_found,
                 "take " + (scratch.path() / "checkpoint-10").string() +
                     ", an older save that is whole: --iteration 10",
                 [&] { at(scratch.path()); });
}

TEST(Locate, says_that_a_save_is_empty) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source");
    const fs::path iteration = scratch.path() / "iter_0000010";
    for (const char* rank : {"mp_rank_00", "mp_rank_01", "mp_rank_02", "mp_rank_03"}) {
        fs::remove(iteration / rank / "model_optim_rng.pt");
        if (std::string(rank) == "mp_rank_00") {
            expect_error(ErrorCode::not_found, "but no model_optim_rng.pt in the first: the save",
                         [&] { at(scratch.path()); });
        }
    }
    expect_error(ErrorCode::not_found,
                 iteration.string() +
                     " has mp_rank_* directories, but no model_optim_rng.pt in the first: the save "
                     "was interrupted",
                 [&] { at(scratch.path()); });
    for (const char* name : {"checkpoint-10", "checkpoint-10/pytorch_model_fsdp_0"}) {
        const Scratch empty;
        empty.directory(name);
        expect_error(ErrorCode::not_found,
                     (empty.path() / "checkpoint-10").string() + " holds no files",
                     [&] { at(empty.path()); });
    }
    // What lies deep is something, whole or not.
    const Scratch deep;
    deep.copy(fixture("llama-tp2-optim-torchdist-bf16") / "source/iter_0000010",
              "step_5/policy/weights/iter_0000000");
    EXPECT_EQ(at(deep.path()).directory, deep.path() / "step_5/policy/weights/iter_0000000");
    const fs::path step = deep.path() / "step_5";
    fs::rename(step / "policy", step / "renamed");
    const fs::path weights = step / "renamed/weights";
    expect_error(ErrorCode::not_found, "give one of those below it, such as " + weights.string(),
                 [&] { at(deep.path()); });
    deep.copy(fixture("../torch/dcp_w2_bf16_qwen2") / "source", "step_6/policy/weights/model");
    fs::remove(deep.path() / "step_6/policy/weights/model/.metadata");
    expect_error(ErrorCode::not_found, "has .distcp files but no .metadata: the save was",
                 [&] { at(deep.path()); });
}

TEST(Locate, says_that_a_trainer_marked_its_save_as_unfinished) {
    const fs::path save = fixture("../torch/dcp_w2_bf16_qwen2") / "source";
    for (const auto& [step, older, mark] : std::vector<std::array<std::string, 3>>{
             {"epoch_1_step_19", "epoch_0_step_9", "epoch_1_step_19/.incomplete"},
             {"m-step=19-last", "m-step=9", "m-step=19-last-unfinished"},
             {"epoch=0-step=19.ckpt", "epoch=0-step=9.ckpt", "epoch=0-step=19-unfinished"}}) {
        const Scratch scratch;
        scratch.copy(save, step + "/model");
        scratch.copy(save, older + "/model");
        EXPECT_EQ(at(scratch.path()).directory, scratch.path() / step / "model");
        scratch.file(mark);
        expect_error(ErrorCode::not_found, "was interrupted: its trainer removes ",
                     [&] { at(scratch.path()); });
        expect_error(ErrorCode::not_found, older + ", an older save that is whole: --iteration 9",
                     [&] { at(scratch.path()); });
        EXPECT_EQ(at(scratch.path(), "", 9).directory, scratch.path() / older / "model");
    }
}

TEST(Locate, mentions_a_directory_that_was_renamed) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source");
    fs::rename(scratch.path() / "iter_0000010", scratch.path() / "best");
    expect_error(ErrorCode::not_found,
                 "if it was renamed, give it: " + (scratch.path() / "best").string(),
                 [&] { at(scratch.path()); });
    const Scratch verl;
    verl.copy(fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source");
    const fs::path actor = verl.path() / "global_step_10" / "actor";
    fs::rename(actor / "model", actor / "weights");
    expect_error(
        ErrorCode::not_found,
        "copy that directory too; or if it was renamed, give it: " + (actor / "weights").string(),
        [&] { at(verl.path()); });
}

TEST(Locate, reads_a_model_in_a_directory_called_like_a_file) {
    const Scratch scratch;
    scratch.file("run/config.json", "{}");
    scratch.file("run/pytorch_model.bin/pytorch_model-00001-of-00001.bin");
    InputRequest request;
    request.directory = scratch.path() / "run";
    expect_error(
        ErrorCode::not_found,
        (request.directory / "pytorch_model.bin").string() + " is a HuggingFace model already",
        [&] { locate(request); });
    request.backend = "hf";
    const Location found = locate(request);
    EXPECT_EQ(found.directory, request.directory / "pytorch_model.bin");
    EXPECT_EQ(found.hf_directory, request.directory);
}

TEST(Locate, takes_what_automodel_keeps_for_huggingface) {
    const Scratch scratch;
    scratch.copy(fixture("../torch/dcp_hf_consolidated_w3") / "source/sharded",
                 "run/epoch_1_step_19/model");
    const fs::path model = scratch.path() / "run/epoch_1_step_19/model";
    EXPECT_EQ(at(scratch.path() / "run").hf_directory, std::nullopt);
    scratch.file("run/epoch_1_step_19/model/.hf_metadata/config.json", "{}");
    for (const fs::path& given : {scratch.path() / "run", model.parent_path(), model}) {
        EXPECT_EQ(at(given).directory, model);
        EXPECT_EQ(at(given).hf_directory, model / ".hf_metadata");
    }
}

TEST(Locate, follows_lightnings_directories_of_deepspeed) {
    const Scratch scratch;
    const fs::path checkpoint = scratch.path() / "epoch=0-step=10.ckpt" / "checkpoint";
    scratch.copy(fixture("../deepspeed/zero2_w2_tied") / "source/global_step2",
                 "epoch=0-step=10.ckpt/checkpoint");
    for (const bool has_latest : {false, true}) {
        for (const fs::path& given : {scratch.path(), checkpoint.parent_path(), checkpoint}) {
            EXPECT_EQ(at(given).directory, checkpoint) << has_latest;
            EXPECT_EQ(at(given).facts.at("iteration"), 10) << has_latest;
        }
        scratch.file("epoch=0-step=10.ckpt/latest", "checkpoint");
    }
}

TEST(Locate, takes_no_config_of_a_run_for_that_of_a_model) {
    const Scratch scratch;
    scratch.copy(fixture("../torch/dcp_w2_bf16_qwen2") / "source", "step10/model_and_optim");
    fs::remove(scratch.path() / "step10/model_and_optim/config.json");
    scratch.file("step10/config.json", R"({"model": {"d_model": 32}, "dataset": {}})");
    EXPECT_EQ(at(scratch.path()).hf_directory, std::nullopt);
    scratch.file("step10/config.json", R"({"model": {}, "model_type": "qwen2"})");
    EXPECT_EQ(at(scratch.path()).hf_directory, scratch.path() / "step10");
}

TEST(Locate, knows_its_backends) {
    InputRequest request;
    request.directory = fixture("llama-tp4-legacy-bf16");
    request.backend = "megatron";
    EXPECT_EQ(locate(request).format, "megatron legacy");
    request.backend = "nemo";
    expect_error(ErrorCode::usage, "--backend nemo is not known; this build reads: auto, ",
                 [&] { locate(request); });
}

TEST(Locate, result_can_be_shared) {
    Location location = at(fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source");
    location.notes = {"one", "two"};
    ByteWriter out;
    out.put(location);
    const auto bytes = out.take();
    ByteReader in(bytes);
    const Location got = in.get<Location>();
    EXPECT_TRUE(in.at_end());
    EXPECT_EQ(got.format, location.format);
    EXPECT_EQ(got.directory, location.directory);
    EXPECT_EQ(got.shard_files, location.shard_files);
    EXPECT_EQ(got.hf_directory, location.hf_directory);
    EXPECT_EQ(got.claims_file, location.claims_file);
    EXPECT_EQ(got.notes, location.notes);
    EXPECT_EQ(got.facts, location.facts);
    location.hf_directory.reset();
    ByteWriter second;
    second.put(location);
    const auto more = second.take();
    ByteReader again(more);
    EXPECT_EQ(again.get<Location>().hf_directory, std::nullopt);
}

}  // namespace
}  // namespace shardweld::formats
