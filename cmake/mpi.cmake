# How MPI comes into the program: linked with it, or, where it must run on machines with any MPI or none, as a module for each of the two
# binary interfaces that MPI libraries have (src/mpi/calls), one of which is loaded when ranks are started (src/mpi/loading).
get_target_property(sources sw_mpi SOURCES)
set(calls ${sources})
list(FILTER calls INCLUDE REGEX /mpi/calls/)
if(NOT SHARDWELD_PORTABLE)
  list(FILTER sources EXCLUDE REGEX "/mpi/loading/|/calls/module.cpp")
  set_target_properties(sw_mpi PROPERTIES SOURCES "${sources}")
  target_link_libraries(sw_mpi PRIVATE MPI::MPI_CXX)
  return()
endif()

list(FILTER sources EXCLUDE REGEX /mpi/calls/)
set_target_properties(sw_mpi PROPERTIES SOURCES "${sources}")
list(FILTER calls EXCLUDE REGEX linked.cpp)

# Only their headers are needed: the program loads the library before the module, which finds MPI's functions there and
# shardweld's own in the program.
set(folder lib/${CMAKE_LIBRARY_ARCHITECTURE})
find_path(SHARDWELD_OPENMPI_INCLUDE mpi.h PATHS /usr/${folder}/openmpi/include NO_DEFAULT_PATH)
find_path(SHARDWELD_MPICH_INCLUDE mpi.h PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich /usr/${folder}/mpich/include NO_DEFAULT_PATH)
foreach(name openmpi mpich)
  string(TOUPPER SHARDWELD_${name}_INCLUDE include)
  if(NOT ${include})
    message(STATUS "No mpi.h of ${name} (${include}): ranks that it starts are refused")
    continue()
  endif()
  add_library(shardweld_${name} MODULE ${calls})
  target_include_directories(shardweld_${name} SYSTEM PRIVATE ${${include}})
  target_compile_definitions(shardweld_${name} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(shardweld_${name} PRIVATE shardweld_options)
  set_target_properties(shardweld_${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  install(TARGETS shardweld_${name} LIBRARY DESTINATION lib/shardweld COMPONENT program)
endforeach()
