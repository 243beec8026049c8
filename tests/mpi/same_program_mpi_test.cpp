// Ranks that run programs of two versions.
#include "app/settings/job.hpp"
#include "support/error_text.hpp"

#include "world.hpp"

namespace shardweld::app {
namespace {

TEST(SameProgram, is_asked_of_all_ranks) {
    mpi::Comm& comm = mpi::world();
    EXPECT_EQ(test::error_text([&] { require_same_program(comm, "1.0 (abc)"); }), "no error");
    const int last = comm.size() - 1;
    const std::string text = test::error_text(
        [&] { require_same_program(comm, comm.rank() == last ? "1.1 (def)" : "1.0 (abc)"); });
    EXPECT_EQ(text, comm.size() == 1
                        ? "no error"
                        : "launch: ranks 0 and " + std::to_string(last) +
                              " run different programs: shardweld 1.0 (abc) and 1.1 (def); install "
                              "one version on all nodes");
}

}  // namespace
}  // namespace shardweld::app
