#include <algorithm>
#include <set>

#include "catalogue/catalogue.hpp"
#include "core/codec.hpp"
#include "formats/format.hpp"

#include "expected.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using catalogue::Coordinates;
using catalogue::Shard;

Location locate_in(const fs::path& directory) {
    JobInput request;
    request.directory = directory;
    return locate(request);
}

const Shard& shard(const Catalogue& catalogue, const std::string& name, const Coordinates& at) {
    const auto found = std::find_if(catalogue.shards.begin(), catalogue.shards.end(),
                                    [&](const Shard& s) { return s.name == name && s.at == at; });
    if (found == catalogue.shards.end()) {
        throw Error(ErrorCode::internal, "no shard " + name);
    }
    return *found;
}

std::vector<std::byte> bytes_of(const Location& location, const Catalogue& catalogue,
                                const Shard& s) {
    return elements(location.directory / catalogue.files.at(s.piece.file).path, s.piece.base,
                    s.piece.patch, s.dtype);
}

TEST(Legacy, describes_a_tensor_parallel_checkpoint) {
    const Location location = locate_in(fixture("llama-tp4-legacy-bf16"));
    const Catalogue got = read_catalogue(location);
    EXPECT_EQ(got.format, "megatron legacy");
    EXPECT_EQ(got.dialect, "megatron_core");
    EXPECT_EQ(
        got.notes,
        (std::vector<std::string>{"Megatron legacy checkpoint, iteration 10, 4 rank files, tp 4"}));
    EXPECT_EQ(got.facts, (std::map<std::string, Index>{{"ep", 1},
                                                       {"etp", 4},
                                                       {"iteration", 10},
                                                       {"pp", 1},
                                                       {"t", 4},
                                                       {"te", 4},
                                                       {"tp", 4},
                                                       {"version", 3},
                                                       {"vpp", 1}}));
    ASSERT_EQ(got.files.size(), 4U);
    EXPECT_EQ(got.files[3].path, "mp_rank_03/model_optim_rng.pt");
    EXPECT_EQ(got.files[3].size,
              fs::file_size(location.directory / "mp_rank_03" / "model_optim_rng.pt"));
    EXPECT_TRUE(got.tensors.empty());
    EXPECT_EQ(got.claims.at("num_layers"), "4");
    EXPECT_EQ(got.claims.at("norm_epsilon"), "1e-06");
    EXPECT_EQ(got.claims.at("swiglu"), "true");
    EXPECT_EQ(got.claims.at("attention_backend"), "megatron.core.transformer.enums AttnBackend");
    const Shard& qkv =
        shard(got, "decoder.layers.3.self_attention.linear_qkv.weight", {2, 0, 0, 0, 2});
    EXPECT_EQ(qkv.dtype, DType::bf16);
    EXPECT_EQ(qkv.shape, (std::vector<Index>{32, 64}));
    EXPECT_EQ(qkv.piece.file, 2U);
    EXPECT_TRUE(resolve_list(got).empty());
}

// Rank (p, v) is stage 2v + p: layers 0 and 2 are rank 0's.
TEST(Legacy, numbers_virtual_stages_globally) {
    const std::string name = "llama-tp2-pp2-vpp2-legacy-bf16";
    const Location location = locate_in(fixture(name));
    const Catalogue got = read_catalogue(location);
    EXPECT_EQ(got.facts.at("vpp"), 2);
    for (int layer = 0; layer < 4; ++layer) {
        const Coordinates at = {1, layer % 2, layer / 2, 0, 1};
        const std::string n = std::to_string(layer);
        const Shard& norm = shard(got, "decoder.layers." + n + ".pre_mlp_layernorm.weight", at);
        EXPECT_EQ(bytes_of(location, got, norm),
                  expected_bytes(name, "model.layers." + n + ".post_attention_layernorm.weight"));
    }
    const Shard& last = shard(got, "decoder.final_layernorm.weight", {0, 1, 1, 0, 0});
    EXPECT_EQ(bytes_of(location, got, last), expected_bytes(name, "model.norm.weight"));
}

TEST(Legacy, numbers_eleven_and_more_stages_in_order) {
    const std::string name = "llama-pp12-legacy-bf16";
    const Location location = locate_in(fixture(name));
    const Catalogue got = read_catalogue(location);
    EXPECT_EQ(got.files[2].path, "mp_rank_00_002/model_optim_rng.pt");
    EXPECT_EQ(got.files[10].path, "mp_rank_00_010/model_optim_rng.pt");
    std::set<std::string> norms;
    for (const Shard& s : got.shards) {
        if (s.name.text().ends_with(".mlp.linear_fc1.layer_norm_weight")) {
            const std::string n = s.name.text().substr(15, s.name.text().find('.', 15) - 15);
            norms.insert(n);
            EXPECT_EQ(
                bytes_of(location, got, s),
                expected_bytes(name, "model.layers." + n + ".post_attention_layernorm.weight"));
        }
    }
    EXPECT_EQ(norms.size(), static_cast<std::size_t>(std::stoi(got.claims.at("num_layers"))));
}

TEST(Legacy, places_expert_ranks_and_keeps_local_expert_numbers) {
    const Catalogue got = read_catalogue(locate_in(fixture("mixtral-ep2-pp2-legacy-bf16")));
    EXPECT_EQ(got.facts.at("ep"), 2);
    std::set<std::string> names[2];
    for (const Shard& s : got.shards) {
        if (s.name.text().starts_with("decoder.layers.3.mlp.experts.")) {
            EXPECT_EQ(s.at.pp, 1);
            names[s.at.ep].insert(s.name);
        }
    }
    EXPECT_FALSE(names[0].empty());
    EXPECT_EQ(names[0], names[1]);
}

TEST(Legacy, counts_what_it_leaves_aside) {
    const Catalogue got = read_catalogue(locate_in(fixture("llama-tp4-legacy-bf16")));
    std::map<std::string, std::pair<std::string, Index>> rows;
    Bytes bytes = 0;
    for (const auto& row : got.ignored) {
        rows[row.pattern] = {row.reason, row.count};
        bytes += row.bytes;
    }
    EXPECT_EQ(rows.at("*._extra_state"),
              (std::pair<std::string, Index>{"Transformer Engine state", 68}));
    EXPECT_EQ(rows.at("rng_state"), (std::pair<std::string, Index>{"training state", 4}));
    EXPECT_EQ(bytes, 4 * (5088U + 2497U));  // of storages, and of byte strings: numpy's state
    EXPECT_EQ(got.inert_globals.at("signal Signals"), 4);
}

TEST(Legacy, misses_a_rank_file) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp2-pp2-vpp2-legacy-bf16") / "source");
    fs::remove_all(scratch.path() / "iter_0000010" / "mp_rank_01_000");
    expect_error(ErrorCode::not_found,
                 "rank files are missing: mp_rank_01_000/model_optim_rng.pt (the run had tp 2, pp "
                 "2, ep 1, etp 2)",
                 [&] { read_catalogue(locate_in(scratch.path())); });
}

TEST(Legacy, refuses_a_stage_that_holds_another_stages_file) {
    const Scratch scratch;
    scratch.copy(fixture("llama-pp12-legacy-bf16") / "source");
    const fs::path iteration = scratch.path() / "iter_0000010";
    fs::remove_all(iteration / "mp_rank_00_011");
    expect_error(ErrorCode::not_found, "mp_rank_00_011/model_optim_rng.pt",
                 [&] { read_catalogue(locate_in(scratch.path())); });
    // A rank file of another save: other sizes in its args.
    fs::copy(fixture("llama-tp4-legacy-bf16") / "source" / "iter_0000010" / "mp_rank_03",
             iteration / "mp_rank_00_011", fs::copy_options::recursive);
    expect_error(ErrorCode::mismatch,
                 "but 4 in mp_rank_00_011/model_optim_rng.pt; copy all files from one save: these "
                 "are of several",
                 [&] { read_catalogue(locate_in(scratch.path())); });
}

TEST(Legacy, names_the_file_that_is_damaged) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source");
    const fs::path file = scratch.path() / "iter_0000010" / "mp_rank_02" / "model_optim_rng.pt";
    fs::resize_file(file, fs::file_size(file) / 2);
    expect_error(ErrorCode::corrupt, "mp_rank_02/model_optim_rng.pt]",
                 [&] { read_catalogue(locate_in(scratch.path())); });
    fs::remove(file);
    expect_error(ErrorCode::not_found, "mp_rank_02/model_optim_rng.pt",
                 [&] { read_catalogue(locate_in(scratch.path())); });
}

TEST(Legacy, sees_the_optimizers_directories_of_old_saves) {
    const Scratch scratch;
    for (const char* rank : {"mp_rank_00", "mp_rank_01"}) {
        scratch.file(std::string(rank) + "/model_rng.pt");
        scratch.file(std::string(rank) + "_000/optim.pt");
        scratch.file(std::string(rank) + "_001/optim.pt");
    }
    EXPECT_EQ(locate_in(scratch.path()).shard_files,
              (std::vector<std::string>{"mp_rank_00/model_rng.pt", "mp_rank_01/model_rng.pt"}));
}

TEST(Legacy, scans_are_the_same_after_sharing) {
    const Location location = locate_in(fixture("llama-tp2-pp2-vpp2-legacy-bf16"));
    const Format& format = format_of(location);
    std::vector<Scan> shared;
    for (const std::string& file : format.scan_list(location)) {
        ByteWriter out;
        out.put(format.scan(location, file));
        const auto bytes = out.take();
        ByteReader in(bytes);
        shared.push_back(in.get<Scan>());
    }
    ByteWriter a;
    a.put(combine(location, std::move(shared)));
    ByteWriter b;
    b.put(read_catalogue(location));
    EXPECT_EQ(a.take(), b.take());
}

}  // namespace
}  // namespace shardweld::formats
