// Which layers are on which stage, as megatron-core counts them.
#include "reshape/pipeline.hpp"

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::reshape {
namespace {

/// "0.0:0+2E 1.0:2+2L": rank, chunk, first layer, number of layers, and what else is there.
std::string shown(const std::string& to, Index layers, Index mtp = 0) {
    try {
        const Pipeline pipeline =
            pipeline_of(parse_destination("legacy:" + to).sizes, {layers, mtp, "num_layers"});
        return joined(pipeline, " ", [](const Stage& s) {
            return std::to_string(s.rank) + "." + std::to_string(s.chunk) + ":" +
                   std::to_string(s.first) + "+" + std::to_string(s.count) +
                   (s.has_embedding ? "E" : "") + (s.has_mtp ? "m" : "") + (s.has_head ? "L" : "");
        });
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.what();
    }
}

TEST(Pipeline, spreads_layers_evenly) {
    EXPECT_EQ(shown("pp=1", 3, 1), "0.0:0+3EmL");
    EXPECT_EQ(shown("pp=2", 4, 1), "0.0:0+2E 1.0:2+2mL");
    EXPECT_EQ(shown("pp=3", 4),
              "mismatch: config.json has num_layers 4, which cannot be spread evenly over pp=3");
}

TEST(Pipeline, interleaves_chunks) {
    EXPECT_EQ(shown("pp=2,vpp=2", 8), "0.0:0+2E 1.0:2+2 0.1:4+2 1.1:6+2L");
    EXPECT_EQ(shown("pp=2,vpp=2", 6),
              "mismatch: pipeline rank 0 has 3 layers, which vpp=2 does not divide");
}

TEST(Pipeline, has_other_first_and_last_ranks) {
    EXPECT_EQ(shown("pp=4,first=1,last=3", 10), "0.0:0+1E 1.0:1+3 2.0:4+3 3.0:7+3L");
    EXPECT_EQ(shown("pp=2,first=3", 4), "0.0:0+3E 1.0:3+1L");
    EXPECT_EQ(shown("pp=2,first=3,last=1", 4), "0.0:0+3E 1.0:3+1L");
    EXPECT_EQ(shown("pp=3,first=2,vpp=2", 10), "0.0:0+1E 1.0:1+2 2.0:3+2 0.1:5+1 1.1:6+2 2.1:8+2L");
    EXPECT_EQ(shown("pp=2,first=3,last=2", 4),
              "mismatch: config.json has num_layers 4, which cannot be spread evenly over pp=2, "
              "first=3, last=2");
}

TEST(Pipeline, follows_a_layout) {
    EXPECT_EQ(shown("pp=2,layout=Ettt|t|tt|L", 6), "0.0:0+3E 1.0:3+1 0.1:4+2 1.1:6+0L");
    EXPECT_EQ(shown("pp=2,vpp=3,layout=E|t*2|t||tt|L", 5),
              "0.0:0+0E 1.0:0+2 0.1:2+1 1.1:3+0 0.2:3+2 1.2:5+0L");
    EXPECT_EQ(shown("pp=4,layout=E,(t*3|)*3,m,L", 9, 1), "0.0:0+3E 1.0:3+3 2.0:6+3 3.0:9+0mL");
}

TEST(Pipeline, writes_repeats_out) {
    using Stages = std::vector<std::string>;
    EXPECT_EQ(stages_of_layout("Ettt|(tt|)*3,m|L"), (Stages{"Ettt", "tt", "tt", "tt", "m", "L"}));
    EXPECT_EQ(stages_of_layout("(|tt)*2L"), (Stages{"", "tt", "ttL"}));
    EXPECT_EQ(stages_of_layout("Et*12L").front().size(), 14U);
}

TEST(Pipeline, refuses_layouts_as_the_framework_does) {
    const auto why = [](const std::string& layout, Index layers = 2, Index mtp = 0) {
        return shown("pp=2,layout=" + layout, layers, mtp);
    };
    EXPECT_EQ(why("Et|txL"), "usage: --to legacy: layout=Et|txL has the letter x");
    EXPECT_EQ(why("Et|(t"), "usage: --to legacy: layout=Et|(t has a ( without what it repeats");
    EXPECT_EQ(why("Et*99999999|L"),
              "usage: --to legacy: layout=Et*99999999|L has more layers than any model");
    EXPECT_EQ(why("tE|tL"),
              "usage: --to legacy: layout=tE|tL does not begin with its one E and end "
              "with its one L");
    EXPECT_EQ(why("Etm|tL"),
              "usage: --to legacy: layout=Etm|tL has decoder layers behind MTP layers");
    EXPECT_EQ(why("Ettm|mL", 2, 2),
              "usage: --to legacy: layout=Ettm|mL has MTP layers on several stages");
    EXPECT_EQ(shown("pp=2,layout=Ett||m|L", 2, 1), "0.0:0+2E 1.0:2+0 0.1:2+0m 1.1:2+0L");
    EXPECT_EQ(why("Ett|m||L", 2, 1),
              "usage: --to legacy: layout=Ett|m||L has MTP layers before the last chunk of their "
              "rank");
    EXPECT_EQ(why("Et|t|L"),
              "usage: --to legacy: layout=Et|t|L has 3 stages, which pp=2 do not make up");
    EXPECT_EQ(why("Et|tL", 3),
              "mismatch: layout=Et|tL has 2 decoder layers, config.json num_layers 3");
    EXPECT_EQ(why("Et|tL", 2, 1), "mismatch: layout=Et|tL has 0 MTP layers, config.json 1");
}

}  // namespace
}  // namespace shardweld::reshape
