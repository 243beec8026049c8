// Links of checkpoints and of the Hub's cache.
#include "shardweld/io/links.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

namespace fs = std::filesystem;

void make(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
}

class Links : public ::testing::Test {
  protected:
    Links() {
        make(top() / "checkpoint/sub/inside");
        make(top() / "checkpoint2/outside");
        fs::create_directory(top() / "hub");
    }
    [[nodiscard]] fs::path top() const { return fs::canonical(place_.path()); }
    [[nodiscard]] fs::path link(const std::string& name, const fs::path& to) const {
        fs::create_symlink(to, top() / "checkpoint" / name);
        return top() / "checkpoint" / name;
    }
    [[nodiscard]] fs::path root() const { return top() / "checkpoint"; }

  private:
    test::TemporaryDirectory place_;
};

TEST_F(Links, stay_inside_by_any_way) {
    EXPECT_EQ(leads_out_of(root() / "sub/inside", root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("a", "sub/inside"), root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("b", root() / "sub"), root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("c", "../checkpoint/sub/../sub/inside"), root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("nowhere", "/no/such/file"), root()), std::nullopt);
    fs::create_symlink(root(), top() / "alias");
    EXPECT_EQ(leads_out_of(top() / "alias/sub/inside", root()), std::nullopt);
    EXPECT_EQ(leads_out_of(root() / "a", top() / "alias"), std::nullopt);
}

TEST_F(Links, say_where_they_lead_out) {
    EXPECT_EQ(leads_out_of(link("a", "../checkpoint2/outside"), root()),
              top() / "checkpoint2/outside");
    EXPECT_EQ(leads_out_of(link("b", "a"), root()), top() / "checkpoint2/outside");
    EXPECT_EQ(leads_out_of(link("d", top() / "checkpoint2") / "outside", root()),
              top() / "checkpoint2/outside");
    EXPECT_EQ(leads_out_of(link("zero", "/dev/zero"), root()), "/dev/zero");
}

TEST_F(Links, of_the_hubs_cache_are_its_own) {
    const fs::path model = top() / "hub/models--a--b";
    const fs::path snapshot = model / "snapshots/0123";
    make(model / "blobs/abc");
    make(top() / "hub/models--c--d/blobs/abc");
    fs::create_directories(snapshot);
    fs::create_symlink("../../blobs/abc", snapshot / "config.json");
    fs::create_symlink("../../../models--c--d/blobs/abc", snapshot / "tokenizer.json");
    EXPECT_EQ(leads_out_of(snapshot / "config.json", snapshot), std::nullopt);
    EXPECT_EQ(leads_out_of(snapshot / "tokenizer.json", snapshot),
              top() / "hub/models--c--d/blobs/abc");
}

}  // namespace
}  // namespace shardweld::io
