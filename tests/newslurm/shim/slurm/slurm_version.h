/* pyslurm builds against one release only and looks at this number. Everything else of Slurm's headers is the system's. */
#define SLURM_VERSION_NUMBER 0x190b00
