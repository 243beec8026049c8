#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "shardweld/core/error.hpp"

#include "../../src/mpi/launch.hpp"
#include "../support/temporary_directory.hpp"

namespace shardweld::mpi {
namespace {

int promised(const std::map<std::string, std::string>& variables, Library library) {
    return promised_ranks(
        [&](const char* name) {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        },
        library);
}

TEST(Launch, is_serial_without_a_launcher) {
    EXPECT_EQ(promised({}, Library::open_mpi), 0);
    EXPECT_EQ(promised({}, Library::mpich), 0);
    EXPECT_EQ(promised({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}, Library::open_mpi), 0);
    EXPECT_EQ(promised({{"SLURM_STEP_NUM_TASKS", "1"}}, Library::open_mpi), 0);
}

TEST(Launch, takes_the_number_of_ranks_from_mpirun) {
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", "4"}}, Library::open_mpi), 4);
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", "1"}}, Library::open_mpi), 1);
    // Inside mpirun the step's tasks are mpirun's daemons.
    EXPECT_EQ(
        promised({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_STEP_NUM_TASKS", "8"}}, Library::open_mpi),
        4);
}

TEST(Launch, takes_the_number_of_ranks_from_srun_with_pmix) {
    EXPECT_EQ(promised({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}}, Library::open_mpi), 8);
    EXPECT_EQ(promised({{"PMIX_RANK", "0"}}, Library::open_mpi), 1);
}

TEST(Launch, takes_pmi_with_mpich_only) {
    EXPECT_EQ(promised({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, Library::mpich), 3);
    EXPECT_EQ(promised({{"MPI_LOCALNRANKS", "2"}}, Library::mpich), 1);
    EXPECT_THROW(promised({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, Library::open_mpi), Error);
}

TEST(Launch, refuses_tasks_that_cannot_find_each_other) {
    try {
        promised({{"SLURM_STEP_NUM_TASKS", "4"}}, Library::open_mpi);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::launch);
        EXPECT_STREQ(error.what(),
                     "4 tasks were started, but the launcher offers no PMIx: each would run alone "
                     "on the whole "
                     "checkpoint; start with 'srun --mpi=pmix' or with the mpirun of the MPI "
                     "library that shardweld "
                     "is built with");
    }
    EXPECT_THROW(promised({{"SLURM_STEP_NUM_TASKS", "4"}}, Library::mpich), Error);
}

TEST(Launch, ignores_numbers_that_are_none) {
    EXPECT_EQ(promised({{"SLURM_STEP_NUM_TASKS", "many"}}, Library::open_mpi), 0);
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", ""}}, Library::open_mpi), 1);
}

TEST(Launch, spares_the_search_for_a_fabric_where_none_is) {
    const test::TemporaryDirectory root;
    const auto none = [](const char*) -> const char* { return nullptr; };
    EXPECT_FALSE(has_fabric(root.path()));
    std::filesystem::create_directories(root.path() / "sys/class/infiniband");
    EXPECT_FALSE(has_fabric(root.path())) << "a driver without a device is no fabric";
    EXPECT_STREQ(quick_transport(none, root.path()), "ob1");

    (void)root.put("sys/class/infiniband/mlx5_0");
    EXPECT_TRUE(has_fabric(root.path()));
    EXPECT_EQ(quick_transport(none, root.path()), nullptr);
}

TEST(Launch, leaves_a_chosen_transport_alone) {
    const test::TemporaryDirectory root;
    const auto chosen = [](const char* name) {
        return std::string(name) == "OMPI_MCA_mtl" ? "ofi" : nullptr;
    };
    EXPECT_EQ(quick_transport(chosen, root.path()), nullptr);
}

}  // namespace
}  // namespace shardweld::mpi
