// What inspect and report show: folded names, grids of ranks, a report as text and as a page.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "app/commands/commands.hpp"
#include "app/messages/table.hpp"
#include "app/report/checkpoint_text.hpp"
#include "app/report/run_page.hpp"
#include "app/report/run_record.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

StoredRow stored(const std::string& name, std::vector<Index> shape = {2, 2}) {
    return {name, DType::bf16, std::move(shape), false, 1, 0, 8, 0, {}};
}

std::vector<std::string> paths(const std::vector<StoredRow>& rows) {
    std::vector<std::string> texts;
    for (const FoldedRow& row : folded(rows)) {
        std::string text;
        for (const std::string& component : row.path) {
            text += (text.empty() ? "" : ".") + component;
        }
        texts.push_back(text + " x" + std::to_string(row.n_tensors));
    }
    return texts;
}

TEST(FoldedNames, are_exactly_the_combinations_that_are_there) {
    std::vector<StoredRow> rows{stored("embed.weight")};
    for (const char* layer : {"0", "1", "2"}) {
        for (const char* expert : {"0", "1", "2", "3"}) {
            rows.push_back(stored("layers." + std::string(layer) + ".experts." + expert + ".w"));
        }
    }
    rows.push_back(stored("layers.3.experts.0.w"));
    rows.push_back(stored("layers.3.experts.2.w"));
    EXPECT_EQ(paths(rows),
              (std::vector<std::string>{"embed.weight x1", "layers.{0-2}.experts.{0-3}.w x12",
                                        "layers.3.experts.{0,2}.w x2"}));
}

TEST(FoldedNames, keep_apart_what_is_not_alike) {
    EXPECT_EQ(paths({stored("layers.0.fc1.weight0"), stored("layers.0.fc1.weight1"),
                     stored("layers.0.fc2.weight0"), stored("layers.1.fc1.weight0", {4})}),
              (std::vector<std::string>{"layers.0.fc1.weight{0,1} x2", "layers.0.fc2.weight0 x1",
                                        "layers.1.fc1.weight0 x1"}));
    // A number that is not written as numbers are is part of the name.
    EXPECT_EQ(paths({stored("a.01.w"), stored("a.1.w")}),
              (std::vector<std::string>{"a.01.w x1", "a.1.w x1"}));
    EXPECT_EQ(ranges_text({0, 1, 2, 5, 7, 8}), "0-2,5,7,8");
}

TEST(TensorTree, has_a_line_for_each_branch_with_the_sum_below_it) {
    const std::string tree = tensor_tree({stored("m.embed.weight"), stored("m.layers.0.a.weight"),
                                          stored("m.layers.0.b"), stored("m.layers.1.a.weight"),
                                          stored("m.layers.1.b")});
    EXPECT_EQ(tree,
              "tensor          number  dtype     shape   shards  bytes\n"
              "m                    5                             40 B\n"
              "  embed.weight       1  bfloat16  [2, 2]       1    8 B\n"
              "  layers.{0,1}       4                             32 B\n"
              "    a.weight         2  bfloat16  [2, 2]       1   16 B\n"
              "    b                2  bfloat16  [2, 2]       1   16 B\n");
}

TEST(TensorTree, survives_names_of_any_depth) {
    std::string name = "a";
    for (int i = 0; i < 100'000; ++i) {
        name += ".0";
    }
    EXPECT_NE(tensor_tree({stored(name), stored(name + "1")}).find("a.0.0"), std::string::npos);
}

TEST(TensorTree, is_none_where_nothing_can_be_folded) {
    std::vector<StoredRow> rows;
    for (int i = 0; i < 25'000; ++i) {
        rows.push_back(stored("x" + std::to_string(i)));
    }
    EXPECT_EQ(tensor_tree(rows), "");
}

TEST(ModelParts, are_told_by_the_first_word_that_decides) {
    const std::vector<std::pair<const char*, const char*>> cases = {
        {"model.layers.0.self_attn.q_proj.weight", "attention"},
        {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", "norms"},
        {"model.layers.0.mlp.experts.3.up_proj.weight", "experts"},
        {"model.layers.0.mlp.shared_expert.up_proj.weight", "shared experts"},
        {"model.layers.0.mlp.gate.weight", "router"},
        {"model.layers.0.mlp.gate_proj.weight", "mlp"},
        {"decoder.layers.0.mlp.linear_fc1.weight", "mlp"},
        {"embedding.word_embeddings.weight", "embedding"},
        {"lm_head.weight", "head"},
        {"rope.freqs", "other"}};
    for (const auto& [name, part] : cases) {
        EXPECT_EQ(part_of(name), part) << name;
    }
    ModelParts parts;
    parts.add("lm_head.weight", 1, DType::f32, 40);
    parts.add("model.embed_tokens.weight", 1, DType::bf16, 80);
    EXPECT_EQ(parts.all().elements, 50);
    EXPECT_EQ(parts.parts().front().name, "embedding");
    EXPECT_EQ(human_count(1'234'567), "1.23 M");
}

catalogue::Catalogue with_files(const std::string& format, const std::vector<std::string>& paths,
                                const std::map<std::string, Index>& facts) {
    catalogue::Catalogue catalogue;
    catalogue.format = format;
    for (const std::string& path : paths) {
        catalogue.files.push_back({path, 1});
    }
    catalogue.facts = facts;
    return catalogue;
}

std::string drawn(const catalogue::Catalogue& catalogue) {
    return grid_text(formats::rank_grid(catalogue), copies_only(catalogue));
}

TEST(RankGrid, is_drawn_by_stages_and_shards) {
    EXPECT_EQ(
        drawn(with_files("megatron legacy",
                         {"mp_rank_00_000/a.pt", "mp_rank_00_001/a.pt", "mp_rank_01_000/a.pt"},
                         {{"tp", 2}, {"pp", 2}})),
        "rank files (#: present, X: missing), pp 2 x tp 2\n"
        "  pp0 ##\n"
        "  pp1 #X\n");
    // Experts divided among the ranks that divide the rest: no file belongs to the other places.
    EXPECT_EQ(drawn(with_files("megatron legacy", {"mp_rank_00_000/a.pt", "mp_rank_01_001/a.pt"},
                               {{"tp", 2}, {"ep", 2}, {"etp", 1}})),
              "rank files (#: present, .: no file), ep 2 x tp 2\n"
              "  ep0 #.\n"
              "  ep1 .#\n");
    EXPECT_EQ(drawn(with_files("megatron legacy", {"mp_rank_00/a.pt"}, {{"tp", 1}})), "");
}

TEST(RankGrid, shows_copies_and_missing_ranks_of_a_mesh) {
    catalogue::Catalogue catalogue =
        with_files("verl fsdp",
                   {"model_world_size_4_rank_0.pt", "model_world_size_4_rank_1.pt",
                    "model_world_size_4_rank_2.pt"},
                   {});
    EXPECT_EQ(drawn(catalogue), "rank files (#: present, X: missing), 4 ranks\n  0 ###X\n");
    catalogue.mesh = {{"ddp", 2}, {"fsdp", 2}};
    catalogue::Tensor tensor;
    for (std::uint32_t file = 0; file < 3; ++file) {
        catalogue::Piece piece;
        piece.file = file;
        piece.replica = file == 2 ? 1 : 0;
        tensor.pieces.push_back(piece);
    }
    catalogue.tensors.push_back(tensor);
    EXPECT_EQ(drawn(catalogue),
              "rank files (#: present, =: copies only, X: missing), ddp 2 x fsdp 2\n"
              "  ddp0 ##\n"
              "  ddp1 =X\n");
    EXPECT_EQ(drawn(with_files("torch dcp", {"__0_0.distcp", "__0_1.distcp", "__2_0.distcp"}, {})),
              "rank files (#: present, .: no file), 3 ranks\n  0 #.#\n");
}

TEST(RankGrid, of_absurd_sizes_is_none) {
    EXPECT_EQ(drawn(with_files("verl fsdp", {"model_world_size_999999999_rank_0.pt"}, {})), "");
    EXPECT_EQ(drawn(with_files("megatron legacy", {"mp_rank_00_000/a.pt"},
                               {{"tp", 1'000'000}, {"pp", 1'000'000}})),
              "");
    EXPECT_EQ(drawn(with_files("huggingface", {"model.safetensors"}, {})), "");
    // Any rank may write as many parts as it likes, and its number be as large.
    EXPECT_EQ(drawn(with_files("torch dcp", {"__0_0.distcp", "__9999999999_0.distcp"}, {})), "");
}

TEST(Escaped, leaves_no_markup_and_no_unseen_characters) {
    EXPECT_EQ(escaped("<b a=\"1\" c='2'>&amp;"),
              "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
    EXPECT_EQ(escaped("a\x1b\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6z"),
              "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz");
    EXPECT_EQ(escaped("na\xc3\xafve \xe2\x82\xac"), "na\xc3\xafve \xe2\x82\xac");
}

TEST(RunRecord, takes_only_reports_of_runs) {
    const test::TemporaryDirectory place;
    const auto refusal = [&](const std::string& text) {
        const std::string path = place.put("r.json", text).string();
        const std::string error = test::error_text([&] { read_run_record(path); });
        const std::size_t at = error.find(path);
        return at == std::string::npos ? error : error.substr(at + path.size());
    };
    EXPECT_EQ(refusal("{").find(" is no report of a run: it is no JSON object"), 0U);
    EXPECT_EQ(refusal("[]").find(" is no report of a run: it is no JSON object"), 0U);
    EXPECT_EQ(refusal(R"({"schema":1,"command":"other"})")
                  .find(" is no report of a run: it has no ledger and no phases"),
              0U);
    EXPECT_NE(refusal(R"({"schema":2,"ledger":{},"phases":[]})").find("schema 2"),
              std::string::npos);
    EXPECT_NE(refusal(std::string(100, '[')).find("is no report of a run"), std::string::npos);
}

// Every place of the schema holds what does not belong there.
constexpr const char* kHostile = R"({"schema":1,"tool":[1],"command":"<script>alert(1)</script>",
"exit":{"code":"x","name":{},"message":"<img src=x onerror=alert(1)>"},
"environment":{"hosts":[1,{},"<b>"],"ranks":-4,"command_line":["<i>",7,"\u001b[31m"],"<u>":["\u202e"]},
"input":{"dir":"\"><script>","format":[],"facts":{"<tp>":1e400}},"provenance":7,
"phases":[{"name":"<p>","wall_s":1e308},{"wall_s":-1},5,{"name":"b","wall_s":"x"}],
"crc":{"records":-1},"base":{"equal":[]},
"ranks":[{"rank":1e99,"host":"<h>","bytes_read":18446744073709551615,"phases":[{"name":"<q>"}]},3],
"ledger":{"stored":18446744073709551615,"consumed":18446744073709551615,"replica":-1,"padding":"x",
"ignored":[{"pattern":"<g>","reason":"</small>","bytes":18446744073709551615},9]},
"files":[{"name":"<f>"},8],"tensors":[{"name":"<t>","bytes":18446744073709551615},{"bytes":1}],
"sanity":[],"warnings":[{"code":"<c>","tensor":5,"text":"<x>"},2]})";

TEST(RunPage, escapes_everything_that_a_report_says) {
    std::string text = kHostile;
    text.replace(text.find("1e400"), 5, "1e300");
    const test::TemporaryDirectory place;
    Options options;
    options.local_dir = place.put("report.json", text);
    const std::string page = run_page(read_run_record(options.local_dir));
    std::set<std::string> tags;
    for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
        tags.insert(page.substr(at + 1, page.find_first_of(" >", at) - at - 1));
    }
    for (const char* tag :
         {"script", "img", "b>", "i>", "u", "tp", "q", "h", "g", "f", "t", "c", "x", "r"}) {
        EXPECT_FALSE(tags.contains(tag)) << tag;
    }
    EXPECT_EQ(page.find('\x1b'), std::string::npos);
    EXPECT_EQ(page.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
    EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
    EXPECT_EQ(page.find("nan"), std::string::npos);
    std::ostringstream out;
    EXPECT_EQ(show_report(options, out), 0);
    const std::string shown = out.str();
    EXPECT_TRUE(std::all_of(shown.begin(), shown.end(), [](char c) {
        return c == '\n' || (c >= ' ' && c <= '~');
    })) << shown;
}

TEST(RunRecord, says_what_was_taken_up_and_fits_a_terminal) {
    const test::TemporaryDirectory place;
    Options options;
    options.local_dir = place.put("report.json", R"({"schema":1,"command":"merge","ledger":{},
"input":{"facts":{"t":2,"te":1,"tp":2}},"resume":{"bytes_reused":659000000},"phases":[],
"provenance":{"standing":"consistent","evidence":[")" +
                                                     std::string(200, 'x') + R"(", ")" +
                                                     std::string(60, 'y') + R"("]}})");
    std::ostringstream out;
    EXPECT_EQ(show_report(options, out), 0);
    const std::string shown = out.str();
    EXPECT_NE(shown.find("parallel sizes  tp 2\n"), std::string::npos) << shown;
    EXPECT_NE(shown.find("taken up        659 MB that an earlier merge had written\n"),
              std::string::npos)
        << shown;
    EXPECT_NE(shown.find("x,\n           yyy"), std::string::npos) << shown;
}

RunRecord record_of(const std::string& environment, const std::string& rest) {
    const test::TemporaryDirectory place;
    return read_run_record(place.put("report.json", R"({"schema":1,"command":"merge","ledger":{},
"phases":[],"environment":{)" + environment + "}" + rest +
                                                        "}"));
}

TEST(RunRecord, has_the_command_with_its_launcher_or_says_what_is_not_known) {
    const std::string own = R"("ranks":2,"command_line":"shardweld merge a b")";
    const RunRecord typed =
        record_of(own + R"(,"launcher":"mpirun -n 2 /x/shardweld merge a b")", "");
    EXPECT_EQ(typed.command, "mpirun -n 2 /x/shardweld merge a b");
    EXPECT_EQ(typed.command_note, "");
    const RunRecord wrapped = record_of(own + R"(,"launcher":"mpirun -n 2 ./job.sh")", "");
    EXPECT_EQ(wrapped.command, "shardweld merge a b");
    EXPECT_EQ(wrapped.command_note, "started by mpirun -n 2 ./job.sh");
    EXPECT_EQ(
        record_of(own + R"(,"launcher":"","launcher_unseen":"started by srun")", "").command_note,
        "started by srun");
    EXPECT_EQ(record_of(own, "").command_note, "how the ranks were started is not known");
    EXPECT_EQ(record_of(R"("ranks":1,"command_line":"shardweld merge a b")", "").command_note, "");
}

TEST(RunRecord, is_headed_by_model_and_output) {
    const auto headline = [](const std::string& rest) { return record_of("", rest).headline(); };
    EXPECT_EQ(headline(R"(,"model_class":"A","target":"/x/merged/")"), "A in merged");
    EXPECT_EQ(headline(R"(,"target":"merged")"), "merge into merged");
    EXPECT_EQ(headline(R"(,"model_class":"A")"), "A");
    EXPECT_EQ(headline(""), "merge");
    EXPECT_EQ(record_of(R"("started":"2026-02-28T23:59:59Z")", "").started, "2026-02-28 23:59 UTC");
    EXPECT_EQ(record_of(R"("started":"<b>2026-02-28T23:59")", "").started, "");
}

TEST(RunRecord, counts_what_several_checkpoints_leave_aside_together) {
    const test::TemporaryDirectory place;
    const RunRecord record = read_run_record(place.put("report.json", R"({"schema":1,"phases":[],
"mixed":[{"dir":"/a"},{"dir":"/b"}],"ledger":{"stored":9,"ignored":[
{"pattern":"rng","reason":"state","bytes":2},{"pattern":"x","reason":"state","bytes":4},
{"pattern":"rng","reason":"state","bytes":3}]}})"));
    ASSERT_EQ(record.ledger.size(), 5U);
    EXPECT_EQ(record.ledger[3].bytes, 5U);
    EXPECT_EQ(record.input, "2 checkpoints: /a, /b");
}

TEST(RunRecord, shows_some_of_many_ranks_and_the_slowest_among_them) {
    RunRecord record;
    for (Index rank = 0; rank < 1000; ++rank) {
        record.ranks.push_back({rank, "h", 0, 0, 0, 0, {{"execute", rank == 777 ? 2.0 : 1.0}}});
    }
    const auto shown = record.shown_ranks(48);
    EXPECT_LE(shown.size(), 49U);
    EXPECT_TRUE(std::any_of(shown.begin(), shown.end(),
                            [](const RecordedRank* rank) { return rank->rank == 777; }));
    EXPECT_TRUE(RunRecord().shown_ranks(48).empty());
}

TEST(ShownNumbers, are_short) {
    EXPECT_EQ(duration_text(0.046), "0.05 s");
    EXPECT_EQ(duration_text(12.3), "12 s");
    EXPECT_EQ(duration_text(600), "10.0 min");
    EXPECT_EQ(duration_text(10'000), "2.8 h");
    EXPECT_EQ(percent_text(1, 8), "12.5 %");
    EXPECT_EQ(percent_text(1, 0), "0.0 %");
    EXPECT_EQ(bar(1, 1'000'000, 10), "#");
    EXPECT_EQ(bar(5, 10, 10), "#####");
    EXPECT_EQ(bar(0, 10, 10), "");
}

}  // namespace
}  // namespace shardweld::app
