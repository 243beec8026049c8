#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "mpi/launch.hpp"
#include "shardweld/error.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::mpi {
namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup_in(const Variables& variables) {
    return [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    };
}

int promised(const Variables& variables, MpiLibrary library) {
    return promised_ranks(lookup_in(variables), library);
}

TEST(Launch, is_serial_without_a_launcher) {
    EXPECT_EQ(promised({}, MpiLibrary::open_mpi), 0);
    EXPECT_EQ(promised({}, MpiLibrary::mpich), 0);
    EXPECT_EQ(promised({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}, MpiLibrary::open_mpi), 0);
    EXPECT_EQ(promised({{"SLURM_STEP_NUM_TASKS", "1"}}, MpiLibrary::open_mpi), 0);
}

TEST(Launch, takes_the_number_of_ranks_from_mpirun) {
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", "4"}}, MpiLibrary::open_mpi), 4);
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", "1"}}, MpiLibrary::open_mpi), 1);
    // Inside mpirun the step's tasks are mpirun's daemons.
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_STEP_NUM_TASKS", "8"}},
                       MpiLibrary::open_mpi),
              4);
}

TEST(Launch, takes_the_number_of_ranks_from_srun_with_pmix) {
    EXPECT_EQ(promised({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}}, MpiLibrary::open_mpi),
              8);
    EXPECT_EQ(promised({{"PMIX_RANK", "0"}}, MpiLibrary::open_mpi), 1);
}

TEST(Launch, takes_pmi_with_mpich_only) {
    EXPECT_EQ(promised({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, MpiLibrary::mpich), 3);
    // srun --mpi=cray_shasta
    EXPECT_EQ(promised({{"PALS_RANKID", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}}, MpiLibrary::mpich),
              3);
    EXPECT_EQ(promised({{"MPI_LOCALNRANKS", "2"}}, MpiLibrary::mpich), 1);
    EXPECT_THROW(promised({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, MpiLibrary::open_mpi), Error);
}

TEST(Launch, takes_pmi_with_an_open_mpi_that_was_built_against_slurm) {
    const Variables srun{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"SLURM_STEP_NUM_TASKS", "3"}};
    const auto promised_where = [&](bool offers_pmi) {
        return promised_ranks(lookup_in(srun), MpiLibrary::open_mpi, [=] { return offers_pmi; });
    };
    EXPECT_EQ(promised_where(true), 3);
    EXPECT_THROW(promised_where(false), Error);
    const Variables none{{"SLURM_STEP_NUM_TASKS", "3"}};
    EXPECT_THROW(promised_ranks(lookup_in(none), MpiLibrary::open_mpi, [] { return true; }), Error);
}

TEST(Launch, finds_the_plugins_of_an_open_mpi_that_was_built_against_slurm) {
    const test::TemporaryDirectory root;
    const Variables flux{{"FLUX_JOB_ID", "f7"}};
    const auto offers = [&](const Variables& variables) {
        return has_plugin(root.path(), pmi_plugins(lookup_in(variables)));
    };
    EXPECT_FALSE(offers({}));
    EXPECT_FALSE(has_plugin(root.path() / "none", {"mca_pmix_s1"}));
    std::filesystem::create_directories(root.path() / "openmpi3");
    (void)root.put("openmpi3/mca_pmix_ext3x.so");
    (void)root.put("openmpi3/mca_pmix_flux.so");
    EXPECT_FALSE(offers({}));
    EXPECT_TRUE(offers(flux));
    (void)root.put("openmpi3/mca_pmix_s2.so");
    EXPECT_TRUE(offers({}));
}

TEST(Launch, refuses_tasks_that_cannot_find_each_other) {
    try {
        promised({{"SLURM_STEP_NUM_TASKS", "4"}}, MpiLibrary::open_mpi);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::launch);
        EXPECT_EQ(error.full_text(),
                  "4 tasks were started in a way that this MPI library cannot join: each would run "
                  "alone on the whole checkpoint; start with 'srun --mpi=pmix', or with the "
                  "mpirun of the Open MPI that shardweld runs with");
    }
    EXPECT_THROW(promised({{"SLURM_STEP_NUM_TASKS", "4"}}, MpiLibrary::mpich), Error);
}

TEST(Launch, says_how_ranks_of_each_library_are_started) {
    EXPECT_STREQ(how_to_start(MpiLibrary::mpich),
                 "start with 'srun --mpi=pmi2' (Cray: --mpi=cray_shasta), or with the mpiexec of "
                 "the MPICH that shardweld runs with");
}

TEST(Launch, knows_the_processes_of_torchrun) {
    const auto started = [](Variables variables) { return torch_processes(lookup_in(variables)); };
    EXPECT_EQ(started({}), 0);
    EXPECT_EQ(started({{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "4"}}), 4);
    EXPECT_EQ(started({{"LOCAL_RANK", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}), 2);
    EXPECT_EQ(started({{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "1"}}), 0);
    EXPECT_EQ(started({{"RANK", "3"}, {"WORLD_SIZE", "8"}}), 0);
    const Variables torchrun{{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "4"}};
    const auto with = [&](const char* name) {
        Variables more = torchrun;
        more[name] = "1";
        return started(more);
    };
    EXPECT_EQ(with("OMPI_COMM_WORLD_SIZE"), 0);
    EXPECT_EQ(with("PMI_RANK"), 0);
    EXPECT_EQ(with("PMIX_RANK"), 4);
}

TEST(Launch, ignores_numbers_that_are_none) {
    EXPECT_EQ(promised({{"SLURM_STEP_NUM_TASKS", "many"}}, MpiLibrary::open_mpi), 0);
    EXPECT_EQ(promised({{"OMPI_COMM_WORLD_SIZE", ""}}, MpiLibrary::open_mpi), 1);
}

TEST(Launch, spares_the_search_for_a_fabric_where_none_is) {
    const test::TemporaryDirectory root;
    const auto none = [](const char*) -> const char* { return nullptr; };
    EXPECT_FALSE(has_fabric(root.path()));
    std::filesystem::create_directories(root.path() / "sys/class/infiniband");
    EXPECT_FALSE(has_fabric(root.path())) << "a driver without a device is no fabric";
    const auto found = quick_transport(none, root.path());
    Variables quick(found.begin(), found.end());
    EXPECT_EQ(quick["OMPI_MCA_pml"], "ob1");
    EXPECT_EQ(quick["OMPI_MCA_btl"].substr(0, 1), "^") << "shared memory and sockets stay";

    (void)root.put("sys/class/infiniband/mlx5_0");
    EXPECT_TRUE(has_fabric(root.path()));
    EXPECT_TRUE(quick_transport(none, root.path()).empty());
}

TEST(Launch, leaves_a_chosen_transport_alone) {
    const test::TemporaryDirectory root;
    const auto chosen = [](const char* name) {
        return std::string(name) == "OMPI_MCA_mtl" ? "ofi" : nullptr;
    };
    EXPECT_TRUE(quick_transport(chosen, root.path()).empty());
}

}  // namespace
}  // namespace shardweld::mpi
