// app.js - the page: its sections, and the service worker that keeps it for times without a network.
import "./see.js";
import "./learn.js";
import "./text.js";
import "./model.js";

if ("serviceWorker" in navigator && window.isSecureContext)
    navigator.serviceWorker.register("service.js", { type: "module" }).catch(() => {}); // the page works without it
