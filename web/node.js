// A program in node: the files of the system are those below /host, and it begins in the current folder.
Module.preRun = () => {
    FS.mkdir('/host');
    FS.mount(NODEFS, {root: '/'}, '/host');
    FS.chdir('/host' + process.cwd());
};
