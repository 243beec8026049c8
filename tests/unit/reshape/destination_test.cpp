// What --to may say, and in which words it is refused.
#include "reshape/destination.hpp"

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld::reshape {
namespace {

std::string refusal(const std::string& text) {
    try {
        (void)parse_destination(text);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_FALSE(error.hint().empty()) << text;
        return error.what();
    }
    return "no error";
}

TEST(Destination, reads_every_form) {
    EXPECT_EQ(parse_destination("hf").form, Form::hf);
    EXPECT_EQ(parse_destination("dcp").world, 1);
    EXPECT_EQ(parse_destination("dcp:world=3").world, 3);
    const Destination fsdp = parse_destination("fsdp:world=16,ddp=2");
    EXPECT_EQ(fsdp.form, Form::fsdp);
    EXPECT_EQ(fsdp.world, 16);
    EXPECT_EQ(fsdp.ddp, 2);
    EXPECT_EQ(fsdp.device, "cuda");
    EXPECT_FALSE(fsdp.has_rank_meshes);
    const Destination older = parse_destination("fsdp:world=2,device=npu,torch=2.8");
    EXPECT_EQ(older.device, "npu");
    EXPECT_TRUE(older.has_rank_meshes);
    const Destination usual = parse_destination("torch_dist");
    EXPECT_FALSE(usual.has_common_object || usual.has_local_names || usual.has_separate_layers ||
                 usual.has_single_experts);
    const Destination other =
        parse_destination("torch_dist:era=019,spec=local,layers=separate,experts=sequential");
    EXPECT_TRUE(other.has_common_object && other.has_local_names && other.has_separate_layers &&
                other.has_single_experts);
}

TEST(Destination, reads_parallel_sizes) {
    const ParallelSizes sizes =
        parse_destination("legacy:tp=8,pp=4,vpp=2,ep=8,etp=1,first=6,last=6").sizes;
    EXPECT_EQ(sizes.tp, 8);
    EXPECT_EQ(sizes.pp, 4);
    EXPECT_EQ(sizes.chunks(), 2);
    EXPECT_EQ(sizes.ep, 8);
    EXPECT_EQ(sizes.expert_tp(), 1);
    EXPECT_EQ(sizes.first, 6);
    EXPECT_EQ(sizes.last, 6);
    EXPECT_EQ(parse_destination("legacy:tp=4").sizes.expert_tp(), 4);
}

TEST(Destination, leaves_commas_to_a_layout) {
    const ParallelSizes sizes = parse_destination("legacy:layout=E,(t*3|)*2,m,L,pp=3,tp=2").sizes;
    EXPECT_EQ(sizes.layout, "E,(t*3|)*2,m,L");
    EXPECT_EQ(sizes.pp, 3);
    EXPECT_EQ(sizes.tp, 2);
}

TEST(Destination, refuses_by_name) {
    EXPECT_EQ(refusal("megatron"), "--to megatron is no form of a checkpoint");
    EXPECT_EQ(refusal("universal:world=2"), "--to universal has no option 'world=2'");
    EXPECT_EQ(refusal("legacy:cp=2"), "--to legacy has no option 'cp=2'");
    EXPECT_EQ(refusal("legacy:"), "--to legacy has no option ''");
    EXPECT_EQ(refusal("legacy:tp=2,4"), "--to legacy has no option '4'");
    EXPECT_EQ(refusal("legacy:tp=0"), "--to tp=0 is no number in its range");
    EXPECT_EQ(refusal("legacy:tp=2,tp=2"), "--to legacy: tp is given twice");
    EXPECT_EQ(refusal("torch_dist:era=17"), "--to era=17 is unknown");
    EXPECT_EQ(refusal("fsdp:world=2,device=gpu"), "--to device=gpu is unknown");
    EXPECT_EQ(refusal("fsdp:world=2,torch=2.3"), "--to torch=2.3 is unknown");
    EXPECT_EQ(refusal("dcp:device=cpu"), "--to dcp has no option 'device=cpu'");
    EXPECT_EQ(refusal("fsdp"), "--to fsdp does not say for how many ranks");
    EXPECT_EQ(refusal("fsdp:world=3,ddp=2"), "--to fsdp: world=3 is not a multiple of ddp=2");
    EXPECT_EQ(refusal("legacy:tp=2,etp=4"), "--to legacy: etp=4 does not divide tp=2");
    EXPECT_EQ(refusal("legacy:vpp=2"),
              "--to legacy: vpp, first and last are about several pipeline ranks, and pp is 1");
    EXPECT_EQ(refusal("legacy:pp=2,first=1,layout=Et|tL"),
              "--to legacy: layout says where each layer is, and so do first and last");
}

TEST(Destination, pads_the_vocabulary_for_each_rank) {
    EXPECT_EQ(padded_vocab(251, 1), 256);
    EXPECT_EQ(padded_vocab(256, 1), 256);
    EXPECT_EQ(padded_vocab(251, 4), 512);
    EXPECT_EQ(padded_vocab(151936, 8), 152576);
}

}  // namespace
}  // namespace shardweld::reshape
