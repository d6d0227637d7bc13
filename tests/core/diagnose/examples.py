"""Lines that real systems print, in invented instances: at least one for each rule of the catalogue."""

# ruff: noqa: E501 - log lines are as long as they are

from __future__ import annotations

_STEPD = "slurmstepd: error: *** "
_AT = "CANCELLED AT 2026-01-11T09:20:41"
_NCCL = "gpu-02:40817:41220 [3] "
_XID = "NVRM: Xid (PCI:0000:1b:00): "
_COUNT = "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? "
_GLOG = "[E0111 09:20:41.123456789 ProcessGroupNCCL.cpp:632] "

# rule → lines of a log that it must be the first to claim
LOG_LINES: dict[str, list[str]] = {
    "slurm.time_limit": [
        f"{_STEPD}JOB 4711 ON gpu-01 {_AT} DUE TO TIME LIMIT ***",
        f"{_STEPD}STEP 4711.0 ON gpu-01 {_AT} DUE TO TIME LIMIT ***",
        f"slurmstepd-gpu01: error: *** STEP 4711.batch ON gpu-01 {_AT} DUE TO TIME LIMIT ***",
    ],
    "slurm.preempted": [f"{_STEPD}JOB 4711 ON gpu-01 {_AT} DUE TO PREEMPTION ***"],
    "slurm.node_failure": [
        f"{_STEPD}STEP 4711.0 ON gpu-01 {_AT} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
    ],
    "srun.node_failure": ["srun: error: Node failure on gpu-02", "srun: error: Node failure on gpu-[02-03]"],
    "slurm.unkillable": [
        f"{_STEPD}STEP 4711.0 STEPD TERMINATED ON gpu-02 AT 2026-01-11T09:20:41 DUE TO JOB NOT ENDING WITH SIGNALS ***"
    ],
    "slurm.stepd_orphan": [
        f"{_STEPD}STEP 4711.0 STEPD TERMINATED ON gpu-02 AT 2026-01-11T09:20:41 DUE TO JOB NOT RUNNING ***"
    ],
    "slurm.job_requeue": [f"{_STEPD}JOB 4711 ON gpu-01 {_AT} DUE TO JOB REQUEUE ***"],
    "slurm.signalled": [f"{_STEPD}JOB 4711 ON gpu-01 {_AT} DUE to SIGNAL Terminated ***"],
    "slurm.task_failure": [f"{_STEPD}STEP 4711.0 ON gpu-01 {_AT} DUE TO TASK FAILURE ***"],
    "slurm.step_failed": [f"{_STEPD}STEP 4711.0 ON gpu-01 FAILED (non-zero exit code or other failure mode) ***"],
    "slurm.job_cancelled": [f"{_STEPD}JOB 4711 ON gpu-01 {_AT} ***", f"{_STEPD}JOB 4711_3 ON gpu-01 {_AT}***"],
    "slurm.step_cancelled": [f"{_STEPD}STEP 4711.0 ON gpu-01 {_AT} ***"],
    "slurm.reason": [f"{_STEPD}REASON: GPUs idle for 60 minutes ***"],
    "slurm.launch_timeout": ["srun: error: timeout waiting for task launch, started 504 of 512 tasks"],
    "slurm.mpi_plugin": [
        "slurmstepd: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library",
        "slurmstepd: error: Couldn't load specified plugin name for mpi/pmix_v4: Plugin init() callback failed",
        "srun: error: Invalid MPI type 'pmix_v4', --mpi=list for acceptable types",
    ],
    "srun.interrupted": ["srun: sending Ctrl-C to StepId=4711.0", "^Csrun: sending Ctrl-C to StepId=4711.0"],
    "slurm.namespace": [
        "slurmstepd: error: container_g_join failed: 4711",
        "slurmstepd-gpu-02: error: container_p_join: open failed for /scratch/4711/.ns: No such file or directory",
    ],
    "cuda.ordinal": [
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
        f"RuntimeError: {_COUNT}Error 101: invalid device ordinal",
    ],
    "nvswitch.fatal": [
        "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "gpu-02 kernel: [ 911.02] nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    ],
    "cuda.nvlink": [
        "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
        f"{_NCCL}NCCL WARN Cuda failure 220 'uncorrectable NVLink error detected during the execution'",
    ],
    "cuda.not_ready": [
        "torch.AcceleratorError: CUDA error: system not yet initialized",
        f"RuntimeError: {_COUNT}Error 802: system not yet initialized",
    ],
    "cuda.driver_combination": [
        f"RuntimeError: {_COUNT}Error 803: system has unsupported display driver / cuda driver combination",
        "RuntimeError: CUDA error: forward compatibility was attempted on non supported HW",
    ],
    "tpu.in_use": [
        "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 5512."
    ],
    "net.adapter": [
        "gpu-02 kernel: mlx5_core 0000:3b:00.0: poll_health:1071:(pid 0): device's health compromised - reached miss count"
    ],
    "storage.workers_late": ["RuntimeError: DataLoader timed out after 600 seconds"],
    "amd.reset_failed": ["kernel: amdgpu 0000:83:00.0: amdgpu: GPU reset(1) failed"],
    "amd.ring_timeout": [
        "kernel: amdgpu 0000:83:00.0: amdgpu: ring sdma0 timeout, signaled seq=991201, emitted seq=991203",
        "kernel: amdgpu 0000:83:00.0: amdgpu: GPU reset begin!",
    ],
    "nccl.ofi": [
        f"{_NCCL}ofi_process_cq:1190 NCCL WARN NET/OFI Request 0x7fd1 completed with error. RC: 113. Error: Unreachable remote"
    ],
    "ucx.retries": [
        "[gpu-02:90127:0:90127] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_4:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)"
    ],
    "deepep.timeout": ["DeepEP dispatch forwarder timeout (RDMA meta), channel: 4, RDMA: 0, nvl: 6"],
    "numerics.scale_gone": [
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1.862645149230957e-09",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.0",
    ],
    "storage.object_store": [
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation (reached max retries: 10): Please reduce your request rate.",
        "botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL",
        "google.api_core.exceptions.ServiceUnavailable: 503 GET",
    ],
    "slurm.task_launch": ["srun: error: Task launch for StepId=4711.0 failed on node gpu-04: Invalid job credential"],
    "slurm.step_create": [
        "srun: error: Unable to create step for job 4711: Job/step already completing or completed",
        "srun: error: Unable to confirm allocation for job 4711: Invalid job id specified",
    ],
    "slurm.prolog": ["slurmstepd: error: Task prolog failed status=256", "srun: error: Prolog error on node gpu-02"],
    "slurm.step_refused": [
        "srun: error: Unable to create step for job 4711: More processors requested than permitted",
        "srun: error: Unable to create step for job 4711: Requested node configuration is not available",
    ],
    "slurm.container_denied": [
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry.example/v2/llm/manifests/26 returned error code: 401 Unauthorized"
    ],
    "slurm.container": [
        "slurmstepd: error: pyxis: child 4242 failed with error code: 1",
        "slurmstepd: error: pyxis: failed to import docker image",
        "slurmstepd: error: pyxis: couldn't start container",
        "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
    ],
    "slurm.revoked": ["srun: Job allocation 4711 has been revoked"],
    "srun.oom": ["srun: error: gpu-02: task 9: Out Of Memory", "srun: error: gpu-02: tasks 8-15: Out Of Memory"],
    "srun.segfault": ["srun: error: gpu-02: task 9: Segmentation fault (core dumped)"],
    "srun.bus_error": ["srun: error: gpu-02: task 9: Bus error (core dumped)"],
    "srun.killed": ["srun: error: gpu-02: task 9: Killed"],
    "srun.task_exit": [
        "srun: error: gpu-02: tasks 8-11,13: Exited with exit code 1",
        "srun: error: gpu-01: tasks 0-7: Aborted (core dumped)",
        "srun: error: gpu-01: task 0: Terminated",
    ],
    "srun.aborted": [
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "srun: Force Terminated StepId=4711.0",
    ],
    "xid.79": [
        f"{_XID}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        f"[   12.345678] {_XID}79, GPU has fallen off the bus.",
        f"gpu-02 kernel: {_XID}79, pid=4002, GPU has fallen off the bus.",
        f"Jan 11 09:20:41 gpu-02 kernel: [12345.6] {_XID}79, pid=1, GPU has fallen off the bus.",
        f"2026-01-11T09:20:41.123456+00:00 gpu-02 kernel: {_XID}79, pid=1",
    ],
    "xid.ecc": [f"{_XID}{code}, pid=4002, name=python, text" for code in (48, 64, 95, 140)],
    "xid.94": [f"{_XID}94, pid=4002, name=python, Contained: SM (0x1)"],
    "xid.nvlink": [f"{_XID}{code}, NVLink: fatal error" for code in (74, 136)],
    "xid.gsp": [f"{_XID}{code}, pid=4002, Timeout after 6s of waiting for RPC response" for code in (119, 120)],
    "xid.halted": [f"{_XID}{code}, pid=4002, name=python" for code in (46, 62, 109, 110, 143, 157, 158)],
    "xid.nvlink5": [f"{_XID}{code}, NETIR_LINK_EVT Nonfatal" for code in (144, 145, 149, 150)],
    "xid.stopped": [f"{_XID}8, pid=4002, name=python"],
    "xid.application": [f"{_XID}{code}, pid=4002, name=python" for code in (11, 13, 25, 31, 32, 137)],
    "xid.sympathetic": [f"{_XID}{code}, pid=4002, Ch 00000008" for code in (43, 45)],
    "xid.recovery": [
        f"{_XID}154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        f"{_XID}154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        f"{_XID}154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
    ],
    "xid.other": [f"{_XID}{code}, pid=4002" for code in (63, 92, 154, 171, 172, 999)],
    "cuda.ecc_uncorrectable": [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
        "  what():  CUDA error: uncorrectable ECC error encountered",
        f"{_NCCL}enqueue.cc:1556 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'",
        f"{_NCCL}NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'",
        f"{_GLOG}[Rank 3] Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered",
        "2026-01-11 09:20:41,101 - trainer - ERROR - rank 3: CUDA error: uncorrectable ECC error encountered",
        "2026-01-11 09:20:41 CRITICAL [rank 3] CUDA error: uncorrectable ECC error encountered",
    ],
    "amd.uncorrectable": [
        "amdgpu 0000:c1:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block",
        "[  812.345678] amdgpu 0000:c1:00.0: amdgpu: socket: 0 1 uncorrectable hardware errors detected in gfx block",
    ],
    "amd.access_fault": [
        "Memory access fault by GPU node-4 (Agent handle: 0x55d1c0) on address 0x7f3c12a00000. Reason: Unknown."
    ],
    "cuda.lost": [
        "Unable to determine the device handle for GPU0000:4E:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "gpu-02: Unable to determine the device handle for GPU0000:4E:00.0: Unknown Error",
        "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "RuntimeError: CUDA error: no CUDA-capable device is detected",
        "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that …",
    ],
    "cuda.driver_mismatch": ["Failed to initialize NVML: Driver/library version mismatch"],
    "cuda.no_gpus": ["RuntimeError: No CUDA GPUs are available"],
    "cuda.oom": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "RuntimeError: CUDA error: out of memory",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6 bytes.",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.50 GiB.",
    ],
    "cuda.assert": ["RuntimeError: CUDA error: device-side assert triggered"],
    "cuda.application": [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: misaligned address",
        f"{_NCCL}enqueue.cc:1556 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
    ],
    "cuda.other": ["RuntimeError: CUDA error: initialization error"],
    "oom.cgroup": [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 3 oom_kill events in StepId=4711.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 4711.0 cgroup. Some of your processes may have been "
        "killed by the cgroup out-of-memory handler.",
    ],
    "oom.kernel": [
        "[12345.6] Out of memory: Killed process 4002 (python) total-vm:1kB",
        "Jan 11 09:20:41 gpu-02 kernel: Memory cgroup out of memory: Killed process 4002 (python)",
        "kernel: python invoked oom-killer: gfp_mask=0xcc0",
    ],
    "oom.dataloader": ["RuntimeError: DataLoader worker (pid 91822) is killed by signal: Killed. "],
    "oom.shm": [
        "RuntimeError: DataLoader worker (pid 13) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory."
    ],
    "oom.allocation": [
        "MemoryError",
        "MemoryError: out of room",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 64.0 GiB for an array",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: you tried …",
        "  what():  std::bad_alloc",
    ],
    "dataloader.exited": ["RuntimeError: DataLoader worker (pid(s) 91822, 91823) exited unexpectedly"],
    "nccl.collective_timeout": [
        f"{_GLOG}[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12) ran for 600029 milliseconds",
        f"{_GLOG}[PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)",
        "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)",
        "torch.distributed.DistBackendError: [Rank 3] Process group watchdog thread terminated with exception: [Rank 3] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)",
    ],
    "nccl.last_work": [
        f"{_GLOG}[Rank 3] Exception (either an error or timeout) detected by watchdog at work: 991, last enqueued NCCL "
        "work: 993, last completed NCCL work: 990.",
        f"{_GLOG}[PG ID 0 Rank 3]  failure detected by watchdog at work sequence id: 991 PG status: last enqueued work: 993",
    ],
    "nccl.dump_signal": [
        f"{_GLOG}[Rank 3] Received a dump signal due to a collective timeout from rank 9 and we will try our best.",
        f"{_GLOG}[Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels",
        f"{_GLOG}To avoid data inconsistency, we are taking the entire process down.",
    ],
    "nccl.heartbeat": [
        "[F0111 09:20:41.1 ProcessGroupNCCL.cpp:1362] [Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
        "without making progress in monitoring enqueued collectives."
    ],
    "nccl.ib_retry": [
        f"{_NCCL}transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.0.2<41883> with status=12 "
        "opcode=0 len=0 vendor err 129 (Recv)",
        f"{_NCCL}NCCL WARN NET/IB : Got completion from peer 10.1.0.2<41883> with error 12, opcode 0, len 0",
    ],
    "nccl.ib_flush": [f"{_NCCL}NCCL WARN NET/IB : Got completion from peer 10.1.0.2<4> with status=5 vendor err 249"],
    "nccl.ib_port": [
        f"{_NCCL}transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
        f"{_NCCL}NCCL WARN NET/IB : mlx5_0:1 Got async error event: port error",
    ],
    "nccl.connect": [
        f"{_NCCL}misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.9<33241> failed : Connection refused",
        f"{_NCCL}NCCL WARN socketPollConnect: connect returned Connection timed out",
    ],
    "nccl.usage": [
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, ncclInvalidArgument: bad",
    ],
    "nccl.remote": [
        "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:2251, remote process exited or there "
        "was a network error, NCCL version 2.21.5",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ],
    "nccl.system": [
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
    ],
    "nccl.backend_error": [
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error (run with NCCL_DEBUG=INFO)",
        "RuntimeError: NCCL communicator was aborted on rank 3.",
    ],
    "net.peer_closed": [
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:33214",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ],
    "rdzv.timeout": [
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
        "(gpu-01, 29500).",
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 7/8 clients joined.",
    ],
    "nccl.interface": [f"{_NCCL}misc/socket.cc:71 NCCL WARN Bootstrap : no socket interface found"],
    "mpi.daemon_lost": ["ORTE has lost communication with a remote daemon."],
    "mpi.process_ended": [
        "mpirun noticed that process rank 11 with PID 41299 on node gpu-02 exited on signal 6 (Aborted)."
    ],
    "oom.ray": ["ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."],
    "storage.read_only": ["OSError: [Errno 30] Read-only file system: '/ckpt/iter_0000840/0.distcp'"],
    "numerics.gradient": [
        "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1.8e-05, 'epoch': 0.42}",
        "{'loss': '0.0', 'grad_norm': 'nan', 'learning_rate': '1.8e-05', 'epoch': '0.42'}",
        " iteration 840/ 20000 | loss scale: 1.0 | grad norm: nan |",
    ],
    "python.chained": ["During handling of the above exception, another exception occurred:"],
    "python.aside": [
        "Exception in thread Thread-3 (_flush):",
        "Exception ignored in: <function Writer.__del__ at 0x7f12>",
    ],
    "rdzv.name": [
        "torch.distributed.DistNetworkError: The IPv6 network addresses of (gpu-0l, 29500) cannot be retrieved (gai error: -2 - Name or service not known)."
    ],
    "rdzv.jax": [
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0."
    ],
    "jax.peer_lost": [
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: sync_3::0.",
        "jax.errors.JaxRuntimeError: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
    ],
    "rdzv.retry": [
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [gpu-01]:29500 (errno: 111 - Connection refused)."
    ],
    "launch.address_in_use": [
        "OSError: [Errno 98] Address already in use",
        "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed "
        "to bind to [::]:29500 (errno: 98 - Address already in use).",
    ],
    "storage.full": [
        "OSError: [Errno 28] No space left on device: '/ckpt/x'",
        "OSError: [Errno 122] Disk quota exceeded",
        "cp: error writing '/ckpt/x': No space left on device",
    ],
    "storage.write": [
        "RuntimeError: [enforce fail at inline_container.cc:588] . unexpected pos 1088 vs 982",
        "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed",
    ],
    "storage.transient": [
        "OSError: [Errno 116] Stale file handle: '/data/x'",
        "OSError: [Errno 5] Input/output error",
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown",
        "OSError: [Errno 107] Transport endpoint is not connected",
    ],
    "storage.kernel": [
        "Jan 11 09:20:41 gpu-02 kernel: nfs: server store-1 not responding, still trying",
        "[12345.6] LustreError: 11-0: scratch-OST0003: operation ost_read failed: this client was evicted by OST0003",
    ],
    "checkpoint.conflict": [
        "FileExistsError: /ckpt/run/ep1-ba12-rank0.pt may conflict with a future checkpoint of the current run.Please delete that file, change to a new folder, or set overwrite=True."
    ],
    "checkpoint.distributed": [
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 3])"
    ],
    "checkpoint.corrupt": [
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "RuntimeError: unexpected EOF, expected 4096 more bytes. The file might be corrupted.",
        "RuntimeError: PytorchStreamReader failed reading zip archive: invalid header or archive is corrupted",
        "EOFError: Ran out of input",
        "_pickle.UnpicklingError: pickle data was truncated",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "zipfile.BadZipFile: File is not a zip file",
    ],
    "checkpoint.missing": [
        "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/iter_0000840/mp_rank_00/model_optim_rng.pt'",
        "FileNotFoundError: Checkpoint at /ckpt/step-400 not found",
        "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/run/1000/.metadata'",
        "ValueError: Can't find a valid checkpoint at /out/checkpoint-500",
    ],
    "checkpoint.exit_on_missing": [
        ">> '--exit-on-missing-checkpoint' set ... exiting. <<",
        ">> '--exit-on-missing-checkpoint' set, exiting",
        "Unable to load RNG state from checkpoint /ckpt. Specify --no-load-rng or --finetune to prevent this",
    ],
    "numerics.nan": [
        "AssertionError: Rank 6: found NaN in local grad norm in backward pass. Device: 6, node: gpu-01",
        "RuntimeError: Rank 3, node gpu-02, device 0, iteration 840: Unexpected result nan (message='found NaN in loss')",
        "ValueError: The loss returned in `training_step` is nan.",
        "FloatingPointError: Loss became infinite or NaN at iteration=840!",
        "Loss is nan, stopping training",
    ],
    "numerics.loss_scale": [
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ],
    "numerics.nan_iterations": ["iteration 840/ 20000 | loss scale: 1.0 | number of nan iterations:   2 |"],
    "numerics.overflow": [
        "[2026-01-11 09:20:41,101] [INFO] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536"
    ],
    "launch.arguments": [
        "train.py: error: unrecognized arguments: --sequence-lenght 8192",
        "train.py: error: the following arguments are required: --data-path",
        "train.py: error: argument --lr: invalid float value: 'fast'",
    ],
    "launch.script_missing": [
        "python: can't open file '/home/ana/trian.py': [Errno 2] No such file or directory",
        "/var/spool/slurmd/job04711/slurm_script: line 14: torchrunn: command not found",
        "slurmstepd: error: execve(): /home/ana/run.sh: Permission denied",
        "slurmstepd: error: couldn't chdir to `/home/ana/gone': No such file or directory",
        "/usr/bin/env: 'python4': No such file or directory",
    ],
    "launch.library": [
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "./train: error while loading shared libraries: libmpi.so.40: cannot open shared object file",
    ],
    "launch.config": [
        "hydra.errors.ConfigCompositionException: Could not override 'trainer.max_step'",
        "omegaconf.errors.ConfigAttributeError: Key 'max_step' is not in struct",
        "Could not override 'trainer.max_step'.",
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for TrainConfig",
    ],
    "launch.init_method": [
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR "
        "expected, but not set"
    ],
    "elastic.child_failed": [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "E0111 09:13:30.1 4242 torch/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 4009) of",
        "  exitcode  : -9 (pid: 4009)",
        "W0111 09:13:30.1 4242 torch/elastic/multiprocessing/api.py:897] Sending process 4001 closing signal SIGTERM",
        "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.",
    ],
    "process.segfault": [
        "Fatal Python error: Segmentation fault",
        "[gpu-02:4009] Signal: Segmentation fault (11)",
        "./run.sh: line 12: 40817 Segmentation fault      (core dumped) python train.py",
        "[gpu-02:40817:0:40817] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
    ],
    "process.terminated": ["[rank: 0] Received SIGTERM: 15", "KeyboardInterrupt"],
    "elastic.time": ["  time      : 2026-01-11_09:20:41"],
    "elastic.segfault": ["  exitcode  : -11 (pid: 4009)"],
    "python.wrapped": [
        "OSError: Caught OSError in DataLoader worker process 3.",
        "KeyError: Caught KeyError in replica 1 on device 1.",
    ],
    "python.state_dict": ["RuntimeError: Error(s) in loading state_dict for GPTModel:"],
    "python.user_error": [
        "KeyError: 'code-v3'",
        "NameError: name 'cfg' is not defined",
        "AssertionError",
        "TypeError: forward() got an unexpected keyword argument 'rope_base'",
        "ModuleNotFoundError: No module named 'flash_attention_4'",
        "SyntaxError: invalid syntax",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "FileNotFoundError: [Errno 2] No such file or directory: 'conf/x.yaml'",
    ],
    "python.other_error": [
        "RuntimeError: The size of tensor a (4) must match the size of tensor b (8) at non-singleton dimension 1",
        "mylib.errors.ShardError: shard 12 has no index",
        "Exception: something is off",
    ],
    "python.traceback": ["Traceback (most recent call last):", "  | Traceback (most recent call last):"],
}

# rule → what the scheduler says of a node
NODE_EVENTS: dict[str, list[str]] = {
    "node.not_responding": ["Not responding", "DOWN*: Not responding", "Node gpu-02 not responding"],
    "node.rebooted": ["Node unexpectedly rebooted", "DOWN: Node unexpectedly rebooted"],
    "node.kill_task": ["Kill task failed", "IDLE+DRAIN: Kill task failed"],
    "node.prolog": ["Prolog error", "Epilog error", "batch job complete failure", "Duplicate jobid"],
    "node.resources": [
        "Low RealMemory (reported:191000 < 100.00% of configured:256000)",
        "gres/gpu count reported lower than configured (7 < 8)",
    ],
    "storage.local": [
        "Buffer I/O error on dev nvme1n1, logical block 41020, async page read",
        "EXT4-fs error (device nvme1n1): ext4_find_entry:1612: inode #2: comm python3: reading directory lblock 0",
        "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
    ],
    "node.down": ["DOWN", "DOWN*", "DOWN+DRAIN", "Node down", "error: node gpu-02 set to state DOWN"],
}

# lines of healthy jobs, quotes of failures, and talk about them: no rule may take any of these for a cause
HARMLESS = [
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
    "slurmstepd: error: Unable to create TMPDIR [/scratch/81]: Permission denied",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    "srun: interrupt (one more within 1 sec to abort)",
    "NCCL INFO NET/OFI Selected Provider is efa",
    "botocore.exceptions.ClientError was caught, trying again",
    "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
    "amdgpu 0000:c1:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
    "{'loss': 1.9, 'grad_norm': 0.31, 'learning_rate': 1.8e-05, 'epoch': 0.42}",
    f"{_XID}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    f"{_XID}154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
    " [2026-01-11 09:20:41.000000] iteration      840/   20000 | lm loss: 2.61E+00 | number of nan iterations:   0 |",
    'WARNING: rank 3 died last night of "RuntimeError: CUDA error: uncorrectable ECC error encountered"',
    "print: RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "INFO: checked for CUDA error: uncorrectable ECC error encountered, found none",
    "2026-01-11 09:20:41,101 INFO retrying after ConnectionResetError: [Errno 104] Connection reset by peer",
    "2026-01-11 09:20:41,101 WARNING caught torch.OutOfMemoryError: CUDA out of memory. Halving the batch.",
    "note to self: if you see NVRM: Xid (PCI:0000:1b:00): 79 call the hotline",
    "'NVRM: Xid (PCI:0000:1b:00): 79' is what the runbook calls a dead GPU",
    "# slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-01-11T09:20:41 DUE TO TIME LIMIT ***",
    "echo 'srun: error: Node failure on gpu-02'",
    "    raise KeyError(name)",
    "    except torch.OutOfMemoryError: CUDA out of memory",
    "UserWarning: KeyError: handled by default",
    "error rate: 0.031, TypeError count: 0",
    "No space left on device is what happens if you keep all checkpoints",
    "Segmentation fault tolerance: on",
    "epoch 3 Killed 0 workers",
    "Loss is nan-free so far",
    "ERROR rate 0.02: 'CUDA error: uncorrectable ECC error encountered' not seen",
    "the connection timed out in the test, as planned",
    "INFO retry 3 after OSError: [Errno 5] Input/output error",
    "print: CUDA error: device-side assert triggered",
    "DEBUG: CUDA out of memory was handled",
    "RuntimeWarning: overflow encountered in exp",
    "checkpoint /ckpt/iter_0000840 not found yet, waiting",
    "Tokenizer: Out Of Memory handling enabled",
    "",
]
